"""Inputs and outputs bound to memory before a run: ``IOBinding``."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from clgraph.errors import InputError
from clgraph.onnxruntime.described import NodeArg
from clgraph.onnxruntime.devices import check_host, check_known
from clgraph.onnxruntime.statuses import MismatchError, RefusedError
from clgraph.onnxruntime.typing_of import as_dtype
from clgraph.onnxruntime.value_lists import OrtValueVector
from clgraph.onnxruntime.values import OrtValue, array_at


class Fed(Protocol):
    """What a binding asks of a session."""

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be fed."""

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that the model has values for."""


class IOBinding:
    """What a session reads and writes at :meth:`InferenceSession.run_with_iobinding`, in the host's memory.

    Attributes:
        inputs: What is fed, by name.
        places: What is to hold each output, by name, in the order of binding; ``None`` for memory of its own.
    """

    def __init__(self, session: Fed) -> None:
        """Bind nothing yet; raises ``TypeError`` where *session* is none."""
        if not hasattr(session, "get_inputs"):
            raise MismatchError(f"a binding is one of a session, not of {type(session).__name__}")
        self.session = session
        self.inputs: dict[str, OrtValue] = {}
        self.places: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    @property
    def _iobinding(self) -> IOBinding:
        return self

    def _feed(self, name: str, value: OrtValue) -> None:
        _check_name(name)
        known = [s.name for s in (*self.session.get_inputs(), *self.session.get_overridable_initializers())]
        if name not in known:
            raise RefusedError(f"Failed to find NodeArg with name: {name} in the def list; there are {known}")
        self.inputs[name] = value

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Feed an array. Raises ``RuntimeError`` for anything else, and where no input is called *name*, as all do."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RefusedError(f"Unable to create OrtValue from a {type(arr_on_cpu).__name__}: bind an array")
        self._feed(name, OrtValue(arr_on_cpu))

    def bind_input(
        self, name: str, device_type: Any, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        """Feed what lies at an address of the host; raises ``RuntimeError`` for another's memory."""
        check_host(device_type, f"input {name!r}")
        self._feed(name, OrtValue(array_at(buffer_ptr, shape, as_dtype(element_type))))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed a value."""
        self._feed(name, ortvalue._ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: Any = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output: in memory of its own, whatever the device, or at an address of the host.

        Raises:
            RefusedError: The memory at the address is another device's, or the address is 0.
            InvalidArgument: No device is called so.
            InputError: Memory comes without its element type and shape (a ``ValueError``).
            MismatchError: The name is not a text.
        """
        _check_name(name)
        place = None
        if buffer_ptr is None:
            check_known(device_type)
        else:
            check_host(device_type, f"output {name!r}")
            if element_type is None or shape is None:
                raise InputError(f"output {name!r}: memory comes with its element type and shape")
            place = OrtValue(array_at(buffer_ptr, shape, as_dtype(element_type)))
        self.places[name] = place

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in a value; raises ``TypeError`` where the name is not a text."""
        _check_name(name)
        self.places[name] = ortvalue._ortvalue

    def keep(self, results: list[OrtValue]) -> None:
        """Take what a run has made, in the order of :attr:`places`."""
        self._results = results

    def get_outputs(self) -> list[OrtValue]:
        """Return what the latest run has made, in the order of binding."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """Return :meth:`get_outputs`."""
        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs as arrays of their own."""
        return [r.numpy().copy() if r.is_tensor() else r.value for r in self._results]

    def synchronize_inputs(self) -> None:
        """Return at once: nothing is copied behind a program's back."""

    def synchronize_outputs(self) -> None:
        """Return at once: a run is over when it returns."""

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self.places.clear()
        self._results = []


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise MismatchError(f"names of inputs and outputs are texts, not {name!r}")
