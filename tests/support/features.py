"""Features of devices that tests need."""

import pytest

from clgraph.implementations.cpu.byte_operands import BYTE_TILE


def needs(engine, *features: str) -> None:
    """Skip a test on a device without one of *features*."""
    if missing := [name for name in features if name not in engine.info.features]:
        pytest.skip(f"the device has no {missing[0]}")


def needs_bytes(engine) -> None:
    """Skip a test on a device without tiles of bytes."""
    if not BYTE_TILE.either & engine.info.features:
        pytest.skip("the device has no tiles of bytes")


def serves(engine, implementation) -> None:
    """Skip a test on a device without the features, or the registers, that *implementation* needs."""
    needs(engine, *implementation.serves.features)
    if engine.info.simd < getattr(implementation, "registers", 0):
        pytest.skip("the device's registers are too short")
