"""Kernel files are found, complete, and stable."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clgraph.compilation import cache_keys
from clgraph.errors import RegistrationError
from clgraph.ops.activation import FUNCTIONS, Activation
from clgraph.saved import circumstances
from clgraph.selector import sources
from clgraph.selector.post import post_codes


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    saved = sources.KERNEL_DIRECTORIES.snapshot()
    sources.add_kernel_directory(tmp_path)
    yield tmp_path
    sources.KERNEL_DIRECTORIES.restore(saved)


def test_includes_are_expanded_once_with_line_numbers(folder: Path) -> None:
    (folder / "inner.clh").write_text("int inner;\n")
    (folder / "outer.cl").write_text('// outer\n#include "inner.clh"\n#include "inner.clh"\nint last;\n')
    text = sources.kernel_text("outer.cl")
    assert text.count("int inner;") == 1
    assert text.endswith('#line 4 "outer.cl"\nint last;\n')


def test_a_missing_file_names_the_folders(folder: Path) -> None:
    with pytest.raises(RegistrationError, match=str(folder)):
        sources.kernel_text("nowhere.cl")


def test_a_folder_of_kernels_that_is_added_later_changes_the_digests_of_what_is_kept(tmp_path: Path) -> None:
    """Those of saved models and of the model cache."""
    (tmp_path / "more.cl").write_text("// one more\n")

    def digest() -> tuple[str, str]:
        return circumstances.sources_digest(tmp_path), cache_keys.code_of(sources.kernel_directories(), tmp_path)

    digests = [digest()]
    saved = sources.KERNEL_DIRECTORIES.snapshot()
    sources.add_kernel_directory(tmp_path)
    try:
        digests.append(digest())
    finally:
        sources.KERNEL_DIRECTORIES.restore(saved)
    assert all(one != other for one, other in zip(*digests, strict=True))


def test_a_plugin_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistrationError, match="not a folder"):
        sources.add_kernel_directory(tmp_path / "none")


def test_every_activation_that_fuses_has_a_post_operation_code() -> None:
    fused = [p.name for f in FUNCTIONS if (p := Activation(f).as_post(0)) is not None]
    assert set(FUNCTIONS) - set(fused) == {"not"}
    assert set(fused) <= set(post_codes())
    assert len(set(post_codes().values())) == len(post_codes())
