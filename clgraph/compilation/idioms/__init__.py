"""Idioms of exporters, recognised before any shape is bound: the layers by which they write one operator, made that.

LLVM calls the same of loops idiom recognition. Bags of embeddings and mixtures of experts are written as loops, masks
and sorted rows, which would run in stages.
"""
