"""Implementations for the matrix units of GPUs, by vendor."""
