import numpy as np
import pytest


@pytest.fixture
def rng():
    """Random numbers, the same in every run of a test."""
    return np.random.default_rng(0)
