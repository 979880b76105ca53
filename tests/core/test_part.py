"""One module of a package, without the package."""

import importlib
import sys

import pytest

from clgraph.core.part import folder_of, import_part


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    home = tmp_path / "a_package"
    home.mkdir()
    (home / "__init__.py").write_text("from a_package import part\n")
    (home / "part.py").write_text("made = object()\n")
    (home / "broken.py").write_text("import sys\nassert __name__ in sys.modules\nraise ValueError('no')\n")
    yield home
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_package"]:
        del sys.modules[name]


def test_a_part_is_imported_alone_and_once_and_the_package_has_the_same(package):
    part = import_part("a_package.part")
    assert import_part("a_package.part") is part
    assert "a_package" not in sys.modules
    assert importlib.import_module("a_package").part is part
    assert folder_of("a_package") == package


def test_a_part_that_fails_is_not_there_and_a_missing_one_says_what_to_install(package):
    with pytest.raises(ValueError, match="no"):
        import_part("a_package.broken")
    assert "a_package.broken" not in sys.modules
    for name, what in (("a_package.other", "a_package"), ("no_package.part", "no_package")):
        with pytest.raises(ImportError, match=f"there is no {name}: pip install {what}"):
            import_part(name)
    assert folder_of("no_package") is None
