"""Implementations for the matrix units of Intel's GPUs (DPAS)."""
