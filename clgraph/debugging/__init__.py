"""Localisation of wrong results: comparison with references, bisection of passes and kernels, dumped programs."""
