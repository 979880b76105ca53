# needs: catboost
"""Train boosted trees, and predict by the ONNX files that CatBoost writes: labels, texts as labels, and numbers."""

import catboost
import numpy as np
import onnxruntime

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((200, 6)).astype(np.float32)
TARGETS = {
    "two": (catboost.CatBoostClassifier, (ROWS[:, 0] + ROWS[:, 1] ** 2 > 0.5).astype(int)),
    "three": (catboost.CatBoostClassifier, np.digitize(ROWS[:, 0], [-0.5, 0.5])),
    "texts": (catboost.CatBoostClassifier, np.where(ROWS[:, 2] > 0, "yes", "no")),
    "numbers": (catboost.CatBoostRegressor, ROWS @ np.arange(6, dtype=np.float32)),
}

for name, (kind, target) in TARGETS.items():
    trees = kind(iterations=30, depth=4, verbose=0, thread_count=1, allow_writing_files=False).fit(ROWS, target)
    trees.save_model("trees.onnx", format="onnx", export_parameters={"onnx_domain": "ai.catboost"})
    session = onnxruntime.InferenceSession("trees.onnx", providers=["CPUExecutionProvider"])
    labels, *scores = session.run(None, {"features": ROWS[:4]})
    print(name, labels.ravel().tolist(), [{k: round(float(v), 4) for k, v in row.items()} for row in [*scores, []][0]])
