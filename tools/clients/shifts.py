# needs: --no-deps: caustic-nmr
"""Predict chemical shifts of a protein: messages between near atoms, whose numbers are others in every run."""

import importlib.util
from pathlib import Path

import numpy as np
import onnxruntime as ort

folder = Path(importlib.util.find_spec("caustic").origin).parent
session = ort.InferenceSession(str(folder / "data" / "best_v2_carbons.onnx"), providers=["CPUExecutionProvider"])
rng = np.random.default_rng(0)
KINDS = {"element": 4, "amino_acid": 20, "atom_role": 5, "residue_types": 20, "seq_sep": 5}
for atoms, residues in ((40, 5), (75, 9), (40, 5), (200, 24)):
    places = (rng.random((atoms, 3)) * 12).astype(np.float32)
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    edges = np.stack(np.nonzero((apart > 0) & (apart < 5)))
    known = {"edge_index": edges, "edge_dist": apart[tuple(edges)], "pos": places}
    known["target_indices"] = rng.integers(0, atoms, (residues, 6))
    known["target_mask"] = np.ones((residues, 6), np.bool_)
    sizes = {"num_atoms": atoms, "num_edges": edges.shape[1], "num_residues": residues}
    feeds = {}
    for given in session.get_inputs():
        shape = [sizes.get(size, size) for size in given.shape]
        if given.name in known:
            feeds[given.name] = known[given.name]
        elif given.name in KINDS:
            feeds[given.name] = rng.integers(0, KINDS[given.name], shape)
        else:
            feeds[given.name] = rng.random(shape).astype(np.float32)
    mean, spread = session.run(None, feeds)
    print(edges.shape[1], mean.shape, *(f"{x:.3f}" for x in (*mean.ravel()[::11], *spread.ravel()[::17])))
