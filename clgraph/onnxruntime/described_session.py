"""What a session tells of its model, its options and where it runs."""

from __future__ import annotations

from collections.abc import Callable

from clgraph.model.model import Model
from clgraph.onnxruntime.base import Session
from clgraph.onnxruntime.described import ModelMetadata, NodeArg, OrtEpAssignedSubgraph, assigned, output_args
from clgraph.onnxruntime.hardware import OrtEpDevice, device_of
from clgraph.onnxruntime.options import ASSIGNMENT, SessionOptions
from clgraph.onnxruntime.providers import Provided
from clgraph.onnxruntime.statuses import Fail


class _Shadowed:
    """A property of a name that is not ONNX Runtime's: a program's class may have an attribute that is called so."""

    def __init__(self, get: Callable[[DescribedSession], Model]) -> None:
        self._get = get

    def __get__(self, session: DescribedSession, kind: type) -> Model:
        return self._get(session)


class DescribedSession(Session):
    """Base of :class:`InferenceSession`: a compiled model, its options, and the providers that were asked for."""

    _model: Model
    _options: SessionOptions
    _provided: Provided

    def _describe(self) -> None:
        """Take what the model tells of its inputs; its outputs are described when they are asked for."""
        self._input_args = [NodeArg.of(s) for s in self._model.inputs]
        self._output_args: list[NodeArg] = []
        # Before version 4 of the format every initialiser was an input, too, and could not be fed.
        self._overridable = self._model.overridable if self._model.about.ir_version > 3 else ()
        self._overridable_args = [NodeArg.of(s) for s in self._overridable]

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be fed."""
        return list(self._input_args)

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        if not self._output_args:
            self._output_args = output_args(self._model, self._source)
        return list(self._output_args)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that the model has values for."""
        return list(self._overridable_args)

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """Return the device that the session runs on, once an input."""
        return device_of(next(iter(self._provided.options)), self._model.device.name) * len(self._input_args)

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Return the nodes of the model's graph under the provider in use, if the options ask for them.

        Raises:
            Fail: The entry ``session.record_ep_graph_assignment_info`` of their configuration is not ``"1"``.
        """
        if not self._options.asks_for(ASSIGNMENT):
            raise Fail(f'session configuration {ASSIGNMENT} must be "1" to tell which provider has which nodes')
        return [self._assigned()]

    def _assigned(self) -> OrtEpAssignedSubgraph:
        return assigned(next(iter(self._provided.options)), self._source)

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model's file says of itself."""
        return ModelMetadata.of(self._model)

    def get_session_options(self) -> SessionOptions:
        """Return the options."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return the names of the providers in use."""
        return list(self._provided.options)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider in use."""
        return {name: dict(options) for name, options in self._provided.options.items()}

    @_Shadowed
    def model(self) -> Model:
        """The compiled model."""
        return self._model
