"""Sizes of the product that callers run in their own contexts, and the bound of its sums."""

ROWS, INNER, COLUMNS = 192, 256, 128
"""Inputs and results of 96 KiB and more are used where they lie."""
BOUND = {"rtol": 0, "atol": 2 * INNER * 2.0**-24 * INNER * 4 * 4}
"""Sums of 256 products of numbers below 4."""
