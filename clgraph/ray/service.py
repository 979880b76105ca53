"""A service: a model as a deployment of Ray Serve, each replica of which joins concurrent requests to batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from clgraph.compilation.entry import compile_model
from clgraph.errors import ClgraphError, InputError, OptionError, QueueFullError
from clgraph.ray.cluster import options_for, ray_module, shipped, source_of
from clgraph.throughput.batching import Batching

_BAD_REQUEST, _OVERLOADED, _FAILED = 400, 503, 500


def deployment(
    model: str | os.PathLike[str] | bytes,
    *,
    name: str = "clgraph",
    num_cpus: int = 1,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    replicas: int | tuple[int, int] = 1,
    autoscaling: Mapping[str, Any] | None = None,
    batching: Batching | None = None,
    queue_size: int = 64,
    ship: bool = True,
    **options: Any,
) -> Any:
    """Return an application of Ray Serve: ``serve.run(clgraph.ray.deployment("model.onnx"))``.

    A handle's ``remote({"x": array})`` returns the results by name. By HTTP, ``{"inputs": {"x": [[...]]}}`` is answered
    by ``{"outputs": {"y": [[...]]}}``; 400 is a request that the model does not take, 503 one too many.
    A handle raises the model's error, or ``ray.serve.exceptions.BackPressureError``.

    Args:
        model: Path of an ONNX file, or its bytes.
        num_cpus: CPUs that each replica reserves; it has a stream for each.
        num_gpus, resources, ship, options: As for :func:`clgraph.ray.map_batches`.
        replicas: How many; or the fewest and the most.
        autoscaling: Further fields of Serve's ``AutoscalingConfig``.
        batching: How requests are joined; by default they are not.
        queue_size: Requests that a replica takes at a time, and that each handle, and each proxy of HTTP, keeps for
            when replicas are free; more are refused.

    Raises:
        OptionError: Ray is not installed, or an option that means nothing.
        ModelError: The file cannot be read.
    """
    compiling = options_for(options, num_cpus, num_gpus)
    fewest, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    if not 0 <= fewest <= most or most < 1:
        raise OptionError(f"replicas={replicas!r} is neither a number of processes nor the fewest and the most")
    if autoscaling and fewest == most:
        raise OptionError("autoscaling needs replicas=(fewest, most)")
    reserved: dict[str, Any] = {"num_cpus": num_cpus, "num_gpus": num_gpus or 0, "resources": dict(resources or {})}
    scale = {"min_replicas": fewest, "max_replicas": most, **(autoscaling or {})}
    serve = ray_module("ray.serve")
    made = serve.deployment(
        name=name,
        ray_actor_options=reserved,
        max_ongoing_requests=queue_size,
        max_queued_requests=queue_size,
        **({"num_replicas": most} if fewest == most else {"autoscaling_config": scale}),
    )(Replica)
    streams = {"hint": "throughput", "batching": batching, "queue_size": queue_size}
    return made.bind([shipped(model, ship=ship)], {**streams, **compiling})


class Replica:
    """What a replica runs."""

    def __init__(self, model: list[Any], options: dict[str, Any]) -> None:
        """Compile the only one of *model*, by *options* of ``clgraph.compile``."""
        self._model = compile_model(source_of(model[0]), **options)
        self._types = {s.name: s.dtype.numpy for s in self._model.inputs if s.dtype is not None}

    async def __call__(self, request: Any) -> Any:
        """Answer a mapping of arrays by one, and a request of HTTP by a response."""
        if isinstance(request, dict):  # a request of HTTP is a mapping, too
            return await self._model.submit(request, queue_timeout=0)
        responses = ray_module("starlette.responses")
        try:
            found = await self._model.submit(self._feeds(await request.body()), queue_timeout=0)
            return responses.Response(_told(found), media_type="application/json")
        except ClgraphError as error:
            refused = _BAD_REQUEST if isinstance(error, ValueError) else _FAILED
            status = _OVERLOADED if isinstance(error, QueueFullError) else refused
            return responses.JSONResponse({"error": str(error)}, status)

    def _feeds(self, body: bytes) -> dict[str, Any]:
        """Return the arrays of a request's JSON, with the types of the model's inputs.

        Raises:
            InputError: It is no JSON, or not of such arrays.
        """
        # Imported where it is needed: batch jobs read none.
        import json

        try:
            told = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the body is no JSON: {error}") from error
        nested = told.get("inputs") if isinstance(told, dict) else None
        if not isinstance(nested, dict):
            raise InputError('the body is not {"inputs": {name: nested lists}}')
        return {name: self._array(name, values) for name, values in nested.items()}

    def _array(self, name: str, values: Any) -> np.ndarray:
        """Return an input's nested lists as an array of its type.

        Raises:
            InputError: They are no array of that type.
        """
        try:
            return np.asarray(values, self._types.get(name))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(f"input {name!r} is given no array: {error}") from error


def _told(results: Mapping[str, Any]) -> str:
    """Return the JSON of an answer; raises ``InputError`` where a number has none."""
    # As for requests.
    import json

    try:
        outputs = {name: np.asarray(result).tolist() for name, result in results.items()}
        return json.dumps({"outputs": outputs}, allow_nan=False)
    except ValueError as error:
        raise InputError(
            "a result holds NaN or infinity, which JSON has no number for: a handle returns it as an array"
        ) from error
