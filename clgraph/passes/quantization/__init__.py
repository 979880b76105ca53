"""Products of integers in place of floats between roundings."""
