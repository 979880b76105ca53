"""The OpenCL implementations that clgraph is tried on, and installing one into a folder of its own.

Nothing is installed on the machine: packages of Debian are downloaded by apt and unpacked, wheels are put below a
prefix by pip. A command is then run *inside* an implementation: in a mount namespace whose ``/usr`` and ``/etc`` have
the unpacked packages laid over them, where the loader finds the driver as if it had been installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENDORS = "etc/OpenCL/vendors"
_LAY_OVER = """
for part in usr etc; do mount -t overlay overlay -o "lowerdir=$0/$part:/$part" "/$part" || exit 125; done
exec "$@"
"""


class InstallError(Exception):
    """An implementation cannot be had: what failed, and what it said."""


@dataclass(frozen=True)
class Implementation:
    """One OpenCL implementation.

    Attributes:
        driver: What occurs in the version that its device reports, and in no other's.
        debian, wheels: Packages it is installed from; neither for one that comes with clgraph.
        library: The driver's library below ``/usr`` or the prefix, where the package does not tell the loader of it.
        environment: Variables that it needs.
        device_class: Which of clgraph's kernels it is given.
        tests: The tests that are run on it, within two minutes.
    """

    name: str
    title: str
    driver: str
    debian: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    library: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    device_class: str = "auto"
    tests: tuple[str, ...] = ()


TESTS = (
    "tests/implementations/cpu/test_rows.py",
    "tests/implementations/cpu/test_matmul.py",
    "tests/implementations/cpu/test_pooling.py",
    "tests/implementations/gpu/test_pooling.py",
    "tests/ops/test_top_k.py",
)
SIMULATOR_TESTS = (
    "tests/implementations/gpu/test_reduce.py",
    "tests/implementations/gpu/test_pooling.py",
    "tests/ops/test_top_k.py",
)
"""Of small tensors: it runs some million instructions a second."""

IMPLEMENTATIONS = (
    Implementation("wheel-pocl", "PoCL of the wheel", "PoCL 3.0", tests=TESTS),
    Implementation("debian-pocl", "Debian's `pocl-opencl-icd`", "+debian", debian=("pocl-opencl-icd",), tests=TESTS),
    Implementation(
        "intel",
        "Intel's runtime (extra `intel`)",
        "Intel(R) OpenCL",
        wheels=("intel-opencl-rt>=2025", "intel-cmplr-lib-rt>=2025"),
        library="lib/libintelocl.so",
        tests=TESTS,
    ),
    Implementation(
        "oclgrind",
        "Oclgrind, as a GPU",
        "Oclgrind",
        debian=("oclgrind",),
        library="lib/oclgrind/liboclgrind-rt-icd.so",
        environment={"OCLGRIND_COMPUTE_UNITS": "16"},
        device_class="gpu",
        tests=SIMULATOR_TESTS,
    ),
    Implementation(
        "rusticl",
        "Mesa's rusticl on llvmpipe",
        "rusticl",
        debian=("mesa-opencl-icd",),
        environment={"RUSTICL_ENABLE": "llvmpipe"},
        tests=TESTS,
    ),
)


@dataclass(frozen=True)
class Installed:
    """An implementation in a folder: what a command needs in front of it, and in its environment, to see it."""

    implementation: Implementation
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a command that is run inside it, from the root of the repository."""
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, **self.environment, "PYTHONPATH": path}

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return *command* as it is run inside the implementation."""
        return [*self.command, *command]


def installed(implementation: Implementation, folder: Path) -> Installed:
    """Install *implementation* below *folder*, where it is not there yet.

    Raises:
        InstallError: A package cannot be had, or the kernel mounts nothing for this user.
    """
    root = folder / implementation.name
    if not (implementation.debian or implementation.wheels):
        return Installed(implementation)
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        (root / VENDORS).mkdir(parents=True)
        (root / "usr").mkdir()
        if implementation.debian:
            _unpack(implementation.debian, root)
        if implementation.wheels:
            _pip(implementation.wheels, root)
        if implementation.library:
            prefix = root if implementation.wheels else Path("/usr")
            for foreign in (root / VENDORS).glob("*.icd"):
                foreign.unlink()
            (root / VENDORS / "driver.icd").write_text(f"{prefix / implementation.library}\n", encoding="utf-8")
        (root / "complete").touch()
    if implementation.wheels:
        seen = {"OCL_ICD_VENDORS": str(root / VENDORS), "LD_LIBRARY_PATH": str(root / "lib")}
        return Installed(implementation, environment={**seen, **implementation.environment})
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    made = Installed(
        implementation, ("unshare", *own, "--mount", "sh", "-c", _LAY_OVER, str(root)), implementation.environment
    )
    _run(made.inside(["true"]))
    return made


def _unpack(packages: Sequence[str], root: Path) -> None:
    """Download *packages* and those that they need and the machine does not have, and unpack them into *root*."""
    archives = root / "archives"
    (archives / "partial").mkdir(parents=True)
    where = ("-o", "Debug::NoLocking=1", "-o", f"Dir::Cache::archives={archives}")
    _run(["apt-get", "install", "--yes", "--no-install-recommends", "--download-only", *where, *packages])
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(archive), str(root)])
    shutil.rmtree(archives)


def _pip(wheels: Sequence[str], root: Path) -> None:
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--ignore-installed", "--prefix", str(root), *wheels])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise InstallError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise InstallError(f"{' '.join(command[:3])}: {said[-1] if said else f'status {done.returncode}'}")
