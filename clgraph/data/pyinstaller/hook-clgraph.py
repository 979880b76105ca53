"""Hook of PyInstaller: what a program that imports clgraph needs beside what its modules import by statements."""

from pathlib import Path

from PyInstaller.utils.hooks import collect_data_files, collect_submodules, get_package_paths

EXTRAS = ("clgraph.ray", "clgraph.serving")
"""A program that uses them imports them."""

module_collection_mode = {"clgraph": "py"}
hiddenimports = collect_submodules("clgraph", filter=lambda name: not name.startswith(EXTRAS))
hiddenimports += ["pyopencl", "pyopencl._cl"]
datas = collect_data_files("clgraph")
for package in ("pyopencl", "pocl_binary_distribution"):
    try:
        root, home = get_package_paths(package)
    except (ImportError, ValueError):  # the drivers of the machine where it runs are used
        continue
    files = [path for path in Path(home, ".libs").rglob("*") if path.is_file()]
    datas += [(str(path), str(path.parent.relative_to(root))) for path in files]
