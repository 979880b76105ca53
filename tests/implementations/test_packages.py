"""Packages of implementations: what is in one serves its devices, and is found by the name of its module."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from clgraph import implementations
from clgraph.implementations import PACKAGES, implementing, tiling
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.micro_kernels import FAMILIES

HERE = "clgraph.implementations."
GENERAL = "clgraph.ops."


@pytest.fixture(autouse=True, scope="module")
def _every_module() -> None:
    """Import what the registries have to find without their help: alone, they know of nothing that they miss."""
    for module in pkgutil.walk_packages(implementations.__path__, HERE):
        importlib.import_module(module.name)


def _package(module: str) -> str:
    return module.removeprefix(HERE).rpartition(".")[0]


def test_every_implementation_is_found_by_its_primitive_and_by_each_kind_of_device_that_it_serves() -> None:
    own = [i for i in IMPLEMENTATIONS.values() if i.__module__.startswith((HERE, GENERAL))]
    lost = [
        f"{i.name} for {device}: {i.__module__}"
        for i in own
        for device in (None, *(i.serves.kinds & PACKAGES.keys()))
        if i.__module__ not in set(implementing(i.primitive.kind, device))
    ]
    assert lost == []
    assert len(own) > 100


def test_a_package_holds_implementations_for_its_devices_only() -> None:
    every = {name for packages in PACKAGES.values() for name in packages}
    kinds = {name: frozenset(device for device, packages in PACKAGES.items() if name in packages) for name in every}
    own = [i for i in IMPLEMENTATIONS.values() if i.__module__.startswith(HERE)]
    assert {(_package(i.__module__), i.serves.kinds) for i in own} == set(kinds.items())


def test_general_implementations_stand_with_their_operators() -> None:
    kept = [i.name for i in IMPLEMENTATIONS.values() if i.__module__.startswith(GENERAL) and not i.general]
    assert kept == []


def test_tile_functions_and_micro_kernels_are_declared_where_libraries_look_for_them() -> None:
    homes = {found.__module__ for found in DESCRIPTORS.values() if found.__module__.startswith((HERE, GENERAL))}
    assert homes <= set(tiling(None))


def test_families_of_micro_kernels_come_with_the_tile_functions_that_call_them() -> None:
    code = (
        "import clgraph.implementations; from clgraph.selector.library import *; DESCRIPTORS.values();"
        "print(*FAMILIES._entries)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {f for d in DESCRIPTORS.values() if d.__module__.startswith(HERE) for f in d.micros} <= set(found)
    assert set(found) <= set(FAMILIES)
