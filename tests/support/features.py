"""Features of devices that tests need."""

import pytest


def needs(engine, *features: str) -> None:
    """Skip a test on a device without one of *features*."""
    if missing := [name for name in features if name not in engine.info.features]:
        pytest.skip(f"the device has no {missing[0]}")
