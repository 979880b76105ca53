"""Implementations for the matrix units of AMD's GPUs (WMMA, MFMA)."""
