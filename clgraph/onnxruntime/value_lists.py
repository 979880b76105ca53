"""Several values: ``OrtValueVector``, and copies of some into others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from clgraph.onnxruntime.devices import check_host
from clgraph.onnxruntime.statuses import RefusedError
from clgraph.onnxruntime.typing_of import as_dtype
from clgraph.onnxruntime.values import OrtValue, array_at


class OrtValueVector(list[OrtValue]):
    """A list of values."""

    def push_back(self, value: Any) -> None:
        """Append a value, or an array."""
        self.append(value if isinstance(value, OrtValue) else OrtValue(value))

    def push_back_batch(
        self,
        tensors: Sequence[Any],
        data_ptrs: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[Any],
    ) -> None:
        """Append values on the memory of *tensors*, whose addresses, element types and shapes are given.

        Raises:
            RefusedError: A tensor is not in the host's memory.
        """
        for tensor, address, kind, shape, device in zip(
            tensors, data_ptrs, element_types, shapes, devices, strict=True
        ):
            check_host(device, "a value")
            value = OrtValue(array_at(address, shape, as_dtype(kind)))
            value.keeps = tensor
            self.append(value)

    def reserve(self, count: int) -> None:
        """Return at once: lists grow by themselves."""

    def shrink_to_fit(self) -> None:
        """Return at once: lists shrink by themselves."""

    def element_type_at(self, index: int) -> int:
        """Return ONNX's number of a value's element type."""
        return self[index].element_type()

    def dlpack_at(self, index: int) -> Any:
        """Return a DLPack capsule of a value."""
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None = None) -> list[Any]:
        """Return DLPack capsules of all, or what *to_tensor* makes of them."""
        capsules = [value.to_dlpack() for value in self]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]


def copy_tensors(src: Iterable[OrtValue], dst: Iterable[OrtValue], stream: Any = None) -> None:
    """Copy each value of *src* into that of *dst*; raises ``RuntimeError`` where they are not as many."""
    given_values, places = list(src), list(dst)
    if len(given_values) != len(places):
        raise RefusedError(f"{len(given_values)} values cannot be copied to {len(places)}")
    for given, held in zip(given_values, places, strict=True):
        held.update_inplace(given)
