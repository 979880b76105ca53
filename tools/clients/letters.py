# needs: --no-deps: azcrawlerpy-recaptcha-text
"""Read words with a transformer over pictures of any size, alone and in batches, and rank readings with a small net."""

import json
from importlib.resources import files

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

package = files("azcrawlerpy_recaptcha_text")
print(sorted(json.loads((package / "svtrv2.json").read_text()))[:6])
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
reader = onnxruntime.InferenceSession(str(package / "svtrv2.onnx"), options, providers=["CPUExecutionProvider"])
selector = onnxruntime.InferenceSession((package / "selector.onnx").read_bytes(), providers=["CPUExecutionProvider"])
for width, words in ((128, ("harbour", "velvet")), (256, ("seventeen sails",)), (64, ("key", "oak", "sky"))):
    pictures = []
    for word in words:
        picture = Image.new("RGB", (width, 32), "white")
        ImageDraw.Draw(picture).text((4, 3), word, fill="black", font=ImageFont.load_default(22))
        pictures.append(np.asarray(picture, np.float32).transpose(2, 0, 1) / 127.5 - 1)
    (probabilities,) = reader.run(None, {"image": np.stack(pictures)})
    thumbs = np.stack(pictures)[:, :, ::2, :128:2][..., :64]
    thumbs = np.pad(thumbs, ((0, 0), (0, 0), (0, 0), (0, 64 - thumbs.shape[-1])))
    (scores,) = selector.run(["scores"], {"thumb": thumbs, "shape": np.full((len(words), 2), 32, np.float32) / width})
    for word, row, score in zip(words, probabilities, scores, strict=True):
        print(word, row.argmax(-1).tolist(), f"{row.max(-1).mean():.4f}", *(f"{s:.3f}" for s in score))
