"""Sparse tensors of a model file as dense arrays."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from clgraph.errors import DeviceMemoryError, ModelError
from clgraph.frontend.protobuf import onnx
from clgraph.frontend.weights import read_tensor
from clgraph.graph.primitive import Array


def read_sparse_tensor(tensor: onnx.SparseTensorProto, what: str, folder: Path | None) -> Array:
    """Return a sparse tensor as a dense array, read-only.

    Raises as :func:`read_tensor`, and:
        ModelError: Its places are not within its shape, or not as many as its values.
        DeviceMemoryError: The host has no memory left for all its elements.
    """
    shape, values = tuple(tensor.dims), read_tensor(tensor.values, what, folder)
    places = read_tensor(tensor.indices, f"the places of {what}", folder).astype(np.int64)
    count = values.size
    if any(d < 0 for d in shape) or places.shape not in ((count,), (count, len(shape))):
        raise ModelError(f"{what} has {list(places.shape)} places for {count} values in the shape {list(shape)}")
    limits = np.array(shape if places.ndim == 2 else [prod(shape)], np.int64)
    rows = places.reshape(count, limits.size)
    if count and bool(((rows < 0) | (rows >= limits)).any()):
        raise ModelError(f"{what} has a value outside the shape {list(shape)}")
    try:
        dense = np.zeros(shape, values.dtype)
    except (MemoryError, ValueError) as error:
        raise DeviceMemoryError(f"the host has no memory left for {what}, sparse of {list(shape)}") from error
    dense[tuple(places.T) if places.ndim == 2 else np.unravel_index(places, shape)] = values.ravel()
    dense.flags.writeable = False
    return dense
