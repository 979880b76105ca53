from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.decoder_folder import write_decoder_folder
from tests.support.decoder_weights import Decoder

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write a decoder's folder."""

    def write(d: Decoder | None = None, **more: Any) -> Path:
        return write_decoder_folder(tmp_path / "model", d or Decoder(), **more)

    return write
