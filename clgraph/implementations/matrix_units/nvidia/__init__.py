"""Implementations for the matrix units of NVIDIA's GPUs, by inline PTX."""
