"""Batch jobs: a dataset of Ray Data through a model, on all machines of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from clgraph.errors import OptionError
from clgraph.ray.cluster import options_for, ray_module, shipped
from clgraph.ray.predictor import Predictor


def map_batches(
    dataset: Any,
    model: str | os.PathLike[str] | bytes,
    *,
    inputs: Mapping[str, str] | None = None,
    results: Mapping[str, str] | None = None,
    batch_size: int = 32,
    actors: int | tuple[int, int] = 1,
    num_cpus: int = 1,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    ship: bool = True,
    **options: Any,
) -> Any:
    """Return *dataset* with the model's results as columns, in place of the inputs': lazily, as datasets are.

    Args:
        dataset: A ``ray.data.Dataset`` whose columns have what the inputs take, with their types.
        model: Path of an ONNX file, or its bytes.
        inputs: The column of each input; by default that of the input's name.
        results: The column of each result that is kept; by default all, by the names of the outputs.
        batch_size: Rows of a run at most.
        actors: How many processes with a model each, over the whole cluster; or the fewest and the most.
        num_cpus: CPUs that each actor reserves, and worker threads of a model on the device ``cpu``.
        num_gpus: GPUs that each actor reserves. Models run on ``gpu`` then, else on ``cpu``, unless *options* name a
            device.
        resources: Further resources that each actor reserves, by the names that the nodes were started with.
        ship: Send the file through the object store. ``False`` lets every actor open the path: for files with weights
            beside them, of more than 2 GiB, and saved models, in a folder that all nodes have.
        options: As for ``clgraph.compile``.

    Raises:
        OptionError: Ray is not installed, or an option that means nothing.
        ModelError: The file cannot be read.
    """
    compiling = options_for(options, num_cpus, num_gpus)
    fewest, most = actors if isinstance(actors, tuple) else (actors, actors)
    if not 1 <= fewest <= most:
        raise OptionError(f"actors={actors!r} is neither a number of processes nor the fewest and the most")
    return dataset.map_batches(
        Predictor,
        fn_constructor_kwargs={
            "model": shipped(model, ship=ship),
            "inputs": inputs,
            "results": results,
            "batch_size": batch_size,
            **compiling,
        },
        batch_size=batch_size,
        batch_format="numpy",
        compute=ray_module("ray.data").ActorPoolStrategy(min_size=fewest, max_size=most),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=dict(resources) if resources else None,
        udf_modifying_row_count=False,
    )
