"""Features of devices that tests need."""

import pytest


def needs(engine, *features: str) -> None:
    """Skip a test on a device without one of *features*."""
    if missing := [name for name in features if name not in engine.info.features]:
        pytest.skip(f"the device has no {missing[0]}")


def serves(engine, implementation) -> None:
    """Skip a test on a device without the features, or the registers, that *implementation* needs."""
    needs(engine, *implementation.serves.features)
    if engine.info.simd < getattr(implementation, "registers", 0):
        pytest.skip("the device's registers are too short")
