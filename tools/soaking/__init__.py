"""What tools/soak is made of: models with known results, faults, what is done with models, and the curve of memory."""
