"""Sparse tensors as ONNX Runtime's programs make and feed them: ``SparseTensor``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn, Self

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceMemoryError, InputError
from clgraph.onnxruntime.devices import OrtDevice, check_host
from clgraph.onnxruntime.enumerations import OrtSparseFormat
from clgraph.onnxruntime.statuses import NotImplemented as NotHere
from clgraph.onnxruntime.statuses import RefusedError
from clgraph.onnxruntime.typing_of import type_of

Array = np.ndarray[Any, Any]


@frozen(eq=False)
class SparseCooView:
    """Where the values of a tensor in coordinates lie."""

    places: Array

    def indices(self) -> Array:
        """Return places in the flat tensor ``[values]``, or coordinates ``[values, 2]``, int64."""
        return self.places


@frozen(eq=False)
class SparseCsrView:
    """Where the values of a matrix in compressed rows lie."""

    columns: Array
    starts: Array

    def inner(self) -> Array:
        """Return the column of each value, int64."""
        return self.columns

    def outer(self) -> Array:
        """Return the number of the first value of each row, and behind them that of all, int64."""
        return self.starts


def _read_only(array: Array) -> Array:
    """Return the same memory, which a program shall not write to."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


class SparseTensor:
    """A tensor in the host's memory of which the elements that are not 0 are kept."""

    _shape: tuple[int, ...]
    _values: Array
    _view: SparseCooView | SparseCsrView

    def __init__(self, sparse_tensor: Any) -> None:
        """Hold another one's contents; raises ``InputError`` (a ``ValueError``) for what is none."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise InputError(f"a sparse tensor is made by sparse_coo_from_numpy, not of {sparse_tensor!r:.60}")
        self.__dict__.update(sparse_tensor.__dict__)

    @classmethod
    def _made(cls, shape: Any, values: Any, view: SparseCooView | SparseCsrView, device: OrtDevice) -> Self:
        check_host(device, "a sparse tensor")
        made = cls.__new__(cls)
        made._shape, made._values, made._view = tuple(int(d) for d in shape), _read_only(np.asarray(values)), view
        return made

    @classmethod
    def sparse_coo_from_numpy(cls, dense_shape: Any, values: Any, coo_indices: Any, ort_device: OrtDevice) -> Self:
        """Return a tensor of *values* at places in the flat tensor ``[values]`` or coordinates ``[values, axes]``.

        Raises:
            RefusedError: There are not as many places as values, or coordinates are not of a matrix (a
                ``RuntimeError``).
        """
        places = _read_only(np.asarray(coo_indices, np.int64))
        made = cls._made(dense_shape, values, SparseCooView(places), ort_device)
        if places.shape != (made._values.size,) and (places.shape != (made._values.size, 2) or len(made._shape) != 2):
            raise RefusedError(
                f"Index size: {places.size} must be equal to or twice the values size: {made._values.size}"
            )
        return made

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Any, values: Any, inner_indices: Any, outer_indices: Any, ort_device: OrtDevice
    ) -> Self:
        """Return a matrix of *values* in the columns *inner_indices*; row i begins at value ``outer_indices[i]``.

        Raises:
            RefusedError: The columns are not as many as the values, or the rows' beginnings not one more than rows.
        """
        columns, starts = (_read_only(np.asarray(at, np.int64)) for at in (inner_indices, outer_indices))
        view = SparseCsrView(columns, starts)
        made = cls._made(dense_shape, values, view, ort_device)
        if len(made._shape) != 2 or view.columns.size != made._values.size:
            raise RefusedError(f"{view.columns.size} columns for {made._values.size} values in {list(made._shape)}")
        if view.starts.size not in (0, made._shape[0] + 1):
            raise RefusedError(
                f"Outer index count must be rows + 1 or zero. Got: {view.starts.size} rows: {made._shape[0]}"
            )
        return made

    def _get_c_tensor(self) -> SparseTensor:
        return self

    def values(self) -> Array:
        """Return the elements that are kept."""
        return self._values.astype(object) if self._values.dtype.kind in "SU" else self._values

    def dense_shape(self) -> list[int]:
        """Return the sizes."""
        return list(self._shape)

    def format(self) -> OrtSparseFormat:
        """Return how it is laid out."""
        coordinates = isinstance(self._view, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if coordinates else OrtSparseFormat.ORT_SPARSE_CSRC

    def data_type(self) -> str:
        """Return the type, as ``sparse_tensor(float)``."""
        return f"sparse_{type_of(self._values.dtype)}"

    def device_name(self) -> str:
        """Return the kind of memory it lies in."""
        return "cpu"

    def as_coo_view(self) -> SparseCooView:
        """Return the places of the values; raises ``RuntimeError`` for a tensor in compressed rows."""
        return self._view if isinstance(self._view, SparseCooView) else self._refuse("COO")

    def as_csrc_view(self) -> SparseCsrView:
        """Return columns and rows of the values; raises ``RuntimeError`` for a tensor in coordinates."""
        return self._view if isinstance(self._view, SparseCsrView) else self._refuse("CSR(C)")

    get_coo_data, get_csrc_data = as_coo_view, as_csrc_view

    def as_blocksparse_view(self) -> NoReturn:
        """Raise ``RuntimeError``: no tensor is in blocks."""
        self._refuse("BlockSparse")

    get_blocksparse_data = as_blocksparse_view

    @classmethod
    def blocksparse_from_numpy(cls, *_: Any) -> NoReturn:
        """Refuse. Raises ``NotImplemented``, always."""
        raise NotHere("sparse tensors in blocks are not here: make one in COO or CSR format")

    def to_cuda(self, ort_device: Any) -> NoReturn:
        """Raise ``RuntimeError``: values are in the host's memory."""
        raise RefusedError("Cuda is not available in this build: a sparse tensor lies in the host's memory")

    def toarray(self) -> Array:
        """Return the dense array; values at one place are added.

        Raises:
            RefusedError: A value lies outside the shape, or the rows do not begin in order.
            DeviceMemoryError: The host has no memory left for all elements.
        """
        places, sizes = self._coordinates()
        if any(bool(((at < 0) | (at >= size)).any()) for at, size in zip(places, sizes, strict=True)):
            raise RefusedError(f"a sparse tensor has a value outside its shape {list(self._shape)}")
        try:
            dense = np.zeros(sizes, self._values.dtype)
        except (MemoryError, ValueError) as error:
            raise DeviceMemoryError(f"the host has no memory left for a sparse tensor {list(self._shape)}") from error
        np.add.at(dense, tuple(places), self._values.ravel())
        return dense.reshape(self._shape)

    def _coordinates(self) -> tuple[Sequence[Array], Sequence[int]]:
        """Return for each axis the values' coordinates, and its size; of places in the flat tensor there is one."""
        if isinstance(self._view, SparseCooView):
            places = self._view.places
            return ([places], [prod(self._shape)]) if places.ndim == 1 else (list(places.T), self._shape)
        starts, columns = self._view.starts, self._view.columns
        counts = np.diff(starts) if starts.size else np.zeros(self._shape[0], np.int64)
        if bool((counts < 0).any()) or int(counts.sum()) != columns.size:
            raise RefusedError(f"the rows of a sparse tensor begin at {starts.tolist()} of {columns.size} values")
        return [np.repeat(np.arange(self._shape[0]), counts), columns], self._shape

    def _refuse(self, form: str) -> NoReturn:
        raise RefusedError(f"This sparse tensor does not contain {form} format")
