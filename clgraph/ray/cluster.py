"""What every part needs of a Ray cluster: Ray itself, the model in its object store, and warm caches on its nodes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from clgraph.errors import ModelError, OptionError
from clgraph.saved.container import is_saved


def ray_module(name: str = "ray") -> Any:
    """Return module *name* of Ray.

    Raises:
        OptionError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise OptionError(f"{name} is not installed ({error}): pip install 'clgraph-opencl[ray]'") from error


def shipped(model: str | os.PathLike[str] | bytes, *, ship: bool) -> Any:
    """Return what stands for *model* in every process of the cluster.

    Args:
        model: Path of an ONNX file, or its bytes.
        ship: Put the bytes into the object store, from where each node fetches them once; else processes open the path
            themselves.

    Raises:
        ModelError: The file cannot be read.
        OptionError: A saved model is to be shipped, or bytes are not to be.
    """
    if not ship:
        if isinstance(model, bytes):
            raise OptionError("bytes of a model have no path that other nodes could open: leave ship=False out")
        return os.fspath(Path(model).absolute())
    if not isinstance(model, bytes):
        path = Path(model)
        if is_saved(path):
            raise OptionError(
                f"{path} is a saved model, which is mapped from its path: give ship=False and a path that "
                "every node has, or the ONNX file"
            )
        try:
            model = path.read_bytes()
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    return ray_module().put(model)


def source_of(model: Any) -> Any:
    """Return what ``clgraph.compile`` takes for *model*, which may be a reference into the object store."""
    if isinstance(model, str | os.PathLike | bytes):
        return model
    ray = sys.modules.get("ray")  # without it there is no reference
    return ray.get(model) if ray is not None and isinstance(model, ray.ObjectRef) else model


def options_for(options: Mapping[str, Any], num_cpus: int, num_gpus: float | None) -> dict[str, Any]:
    """Return *options* with a device and worker threads that fit what is reserved.

    Raises:
        OptionError: *num_cpus* is not a number of worker threads.
    """
    if not isinstance(num_cpus, int) or num_cpus < 1:
        raise OptionError(f"num_cpus={num_cpus!r} is not a number of worker threads")
    made = {"device": "gpu" if num_gpus else "cpu", **options}
    return {"threads": num_cpus, **made} if made["device"] == "cpu" else made


def warm(model: str | os.PathLike[str] | bytes, *, ship: bool = True, **options: Any) -> dict[str, float]:
    """Compile *model* on every node of the cluster at once, so that kernels and model are in the caches of all.

    A node needs a CPU that nothing has reserved, else its turn comes when one is free.

    Args:
        model: As for :func:`clgraph.ray.map_batches`, and *ship* too.
        options: As for ``clgraph.compile``: the same as those of the job to come.

    Returns:
        Seconds by the node's address and number.

    Raises:
        OptionError: Ray is not installed or not started.
        ClgraphError: The model cannot be compiled, on some node.
    """
    ray = ray_module()
    if not ray.is_initialized():
        raise OptionError("no Ray cluster is known to this process: ray.init(), or ray.init(address='auto'), first")
    strategies = ray_module("ray.util.scheduling_strategies")
    source = shipped(model, ship=ship)
    remote = ray.remote(num_cpus=1)(_compile)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    there = {
        f"{node['NodeManagerAddress']} {node['NodeID'][:8]}": remote.options(
            scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote([source], options)
        for node in nodes
    }
    return dict(zip(there, ray.get(list(there.values())), strict=True))


def _compile(source: list[Any], options: dict[str, Any]) -> float:
    """Compile a model in a process of a node, and return how many seconds that took."""
    import clgraph

    start = time.perf_counter()
    clgraph.compile(source_of(source[0]), **options).close()
    return time.perf_counter() - start
