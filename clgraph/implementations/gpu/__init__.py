"""Ordinary kernels with local memory and vectors: implementations for every GPU."""
