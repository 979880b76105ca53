"""ONNX's backend interface: ``clgraph.backend.prepare(model, device="CPU").run(inputs)``.

See https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from clgraph.compilation.entry import compile_model
from clgraph.errors import DeviceError, InputError, UnsupportedError
from clgraph.model.model import Model
from clgraph.runtime.device import find_device

NAMES = {"CPU": "cpu", "CUDA": "gpu", "GPU": "gpu"}
"""ONNX's names of devices; another one is clgraph's own, as ``clgraph.compile`` takes it."""


class ClgraphRep(BackendRep):
    """A compiled model as ONNX's tests run it."""

    def __init__(self, model: Model) -> None:
        """Wrap *model*."""
        self.model = model

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Return the outputs for *inputs*: arrays in the order of the model's inputs, by name, or the only one.

        Raises:
            InputError: Options are given, or the inputs do not fit.
        """
        if options:
            raise InputError(f"a run has no option {sorted(options)[0]!r}")
        names = [signature.name for signature in self.model.inputs]
        if not isinstance(inputs, Mapping):
            arrays = inputs if isinstance(inputs, Sequence) else [inputs]
            if len(arrays) != len(names):
                raise InputError(f"{len(arrays)} inputs were given, the model has {len(names)}")
            inputs = dict(zip(names, arrays, strict=True))
        results = self.model.run(inputs)
        listed = self.model.about.listed or tuple(results)
        outputs = namedtupledict("Outputs", list(listed))
        return outputs(*(results[name] for name in listed))


class ClgraphBackend(Backend):
    """clgraph under ONNX's interface."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether clgraph has everything that *model* asks for."""
        try:
            compile_model(model, "null", **options)
        except UnsupportedError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> ClgraphRep:
        """Compile *model*; *options* are those of ``clgraph.compile``, whose errors this raises."""
        return ClgraphRep(compile_model(model, NAMES.get(device.partition(":")[0], device), **options))

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **_: Any
    ) -> Any:
        """Refuse, because a single node does not state its operator set.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "a single node states no operator set: build a model of it by onnx.helper.make_model, and use run_model"
        )

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device."""
        try:
            find_device(NAMES.get(device.partition(":")[0], device))
        except DeviceError:
            return False
        return True


is_compatible = ClgraphBackend.is_compatible
prepare = ClgraphBackend.prepare
run_model = ClgraphBackend.run_model
run_node = ClgraphBackend.run_node
supports_device = ClgraphBackend.supports_device
