from clgraph.runtime.intel import runtime_libraries, write_vendors


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
    (folder / "gone.icd").write_text("libgone.so\n")
    write_vendors(folder, tmp_path / "libintelocl.so.2025", system)
    content = {p.name: p.read_text().strip() for p in folder.iterdir()}
    assert content == {
        "nvidia.icd": "libnvidia-opencl.so.1",
        "clgraph-intel.icd": str(tmp_path / "libintelocl.so.2025"),
    }


def test_without_system_drivers_intels_stands_alone(tmp_path):
    folder = tmp_path / "ours"
    folder.mkdir()
    write_vendors(folder, tmp_path / "lib.so", tmp_path / "nothing")
    assert [p.name for p in folder.iterdir()] == ["clgraph-intel.icd"]
