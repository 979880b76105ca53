# needs: --no-deps: markovonnx onnxdumper
"""Export Markov chains of letters, predict with them, and dump what is computed on the way."""

import contextlib
import io

import numpy as np
from markovonnx import MarkovChain, MarkovONNXRuntime, Vocabulary, export_markov_onnx, export_markov_sparse_onnx
from onnxdumper import InferenceSession

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog sat"]

vocabulary = Vocabulary()
vocabulary.build_from_sequences([list(text) for text in TEXTS])
for order in (1, 2):
    chain = MarkovChain(order, vocabulary)
    with contextlib.redirect_stdout(io.StringIO()):  # the seconds that it takes
        chain.fit([list(text) for text in TEXTS])
    for kind, export in (("dense", export_markov_onnx), ("sparse", export_markov_sparse_onnx)):
        path = f"{kind}_{order}.onnx"
        export(chain, path)
        runtime = MarkovONNXRuntime(path, vocabulary, order)
        for context in ("th", "sa", "do"):
            found = np.sort(np.ravel(runtime.predict_probs(list(context))).astype(float))
            print(
                path,
                context,
                repr(runtime.argmax(list(context))),
                np.round(found[-3:], 3).tolist(),
            )
    dumping = InferenceSession(f"dense_{order}.onnx", providers=["CPUExecutionProvider"])
    fed = {"input_ids": np.array(vocabulary.encode(list("th")[-order:]), np.int64)}
    print(int(np.ravel(dumping.run(["next_id"], fed, dump_path="dumped.npz")[0])[0]))
    with np.load("dumped.npz") as dumped:
        print({name: list(dumped[name].shape) for name in sorted(dumped.files)})
