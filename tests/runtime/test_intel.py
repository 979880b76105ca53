import os
import sys

import pytest

from clgraph.runtime.intel import make_visible, runtime_libraries, write_vendors


def test_the_runtime_is_found_below_the_environment(tmp_path):
    library = tmp_path / "lib" / "libintelocl.so.2025"
    library.parent.mkdir()
    assert runtime_libraries([tmp_path]) == []
    library.touch()
    (library.parent / "libintelocl.so").symlink_to(library)
    (library.parent / "libintelocl.so-gdb.py").touch()
    assert runtime_libraries([tmp_path, tmp_path]) == [library.resolve()]


def test_the_vendors_folder_has_the_systems_drivers_and_intels(tmp_path):
    system, folder = tmp_path / "system", tmp_path / "ours"
    system.mkdir()
    folder.mkdir()
    (system / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (system / "intel64.icd").write_text("/opt/libintelocl.so\n")
    made = write_vendors(folder, tmp_path / "libintelocl.so.2025", system)
    assert write_vendors(folder, tmp_path / "libintelocl.so.2025", system) == made
    content = {p.name: p.read_text().strip() for p in made.iterdir()}
    assert content == {
        "nvidia.icd": "libnvidia-opencl.so.1",
        "clgraph-intel.icd": str(tmp_path / "libintelocl.so.2025"),
    }


def test_without_system_drivers_intels_stands_alone(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    made = write_vendors(folder, tmp_path / "lib.so", tmp_path / "nothing")
    assert [p.name for p in made.iterdir()] == ["clgraph-intel.icd"]


def test_another_environment_or_machine_with_the_same_home_has_a_vendors_folder_of_its_own(tmp_path):
    first = write_vendors(tmp_path / "ours", tmp_path / "one" / "lib.so", tmp_path / "nothing")
    other = write_vendors(tmp_path / "ours", tmp_path / "other" / "lib.so", tmp_path / "nothing")
    assert first != other
    assert (first / "clgraph-intel.icd").read_text() == f"{tmp_path}/one/lib.so\n"


def test_a_link_among_the_vendors_is_replaced_and_not_written_through(tmp_path):
    made = write_vendors(tmp_path / "ours", tmp_path / "lib.so", tmp_path / "nothing")
    (tmp_path / "victim").write_text("precious")
    (made / "clgraph-intel.icd").unlink()
    (made / "clgraph-intel.icd").symlink_to(tmp_path / "victim")
    assert write_vendors(tmp_path / "ours", tmp_path / "lib.so", tmp_path / "nothing") == made
    assert (made / "clgraph-intel.icd").read_text() == f"{tmp_path}/lib.so\n"
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("below", ["lib", "local/lib"])
def test_the_runtime_is_made_visible_where_wheels_put_their_data(below, tmp_path, monkeypatch):
    """Debian's Python has them below ``local``."""
    library = tmp_path / "env" / below / "libintelocl.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "nothing"))
    make_visible(tmp_path / "vendors")
    made = tmp_path / "vendors" / os.path.basename(os.environ["OCL_ICD_VENDORS"])
    assert (made / "clgraph-intel.icd").read_text() == f"{library}\n"
