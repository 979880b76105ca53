"""Sessions as ONNX Runtime's extension module makes them: of options and a model, before they are given providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.onnxruntime.inner import Inner
from clgraph.onnxruntime.options import SessionOptions
from clgraph.onnxruntime.providers import CPU
from clgraph.onnxruntime.session import InferenceSession
from clgraph.onnxruntime.statuses import Fail, MismatchError
from clgraph.onnxruntime.value_lists import OrtValueVector


class InitialisedSession(Inner):
    """A session that runs once :meth:`initialize_session` has named its providers; what it reads is known before."""

    def __init__(self, options: SessionOptions, source: Any, from_file: bool, read_config: bool = False) -> None:
        """Compile a model for the CPU.

        Args:
            source: Path of an ONNX file if *from_file*, else its bytes.
            read_config: Without meaning: no options are read from models.

        Raises:
            MismatchError: An argument is of another type.
            StatusError: As :class:`InferenceSession`.
        """
        if not isinstance(options, SessionOptions) or not isinstance(source, str if from_file else bytes):
            raise MismatchError("a session takes SessionOptions, and the path of a file or a model's bytes")
        super().__init__(InferenceSession(source, options, providers=[CPU]))
        self._initialised = False

    def initialize_session(
        self,
        providers: Sequence[str] = (),
        provider_options: Sequence[Mapping[str, str]] = (),
        disabled_optimizers: Any = (),
    ) -> None:
        """Take the providers, where any is named but the CPU.

        Raises:
            Fail: The session was initialised before.
            OptionError, RefusedError, StatusError: As :meth:`InferenceSession.set_providers`.
        """
        if providers and self._initialised:
            raise Fail("Execution providers must be registered before the session is initialized.")
        if list(providers) not in ([], [CPU]):
            self._session.set_providers(list(providers), list(provider_options) or None)
        self._initialised = True

    def run_with_ort_values(
        self, feeds: Mapping[str, Any], names: Sequence[str], options: Any = None
    ) -> OrtValueVector:
        """Return the results of a run; raises ``Fail`` before :meth:`initialize_session`."""
        self._check_initialised()
        return super().run_with_ort_values(feeds, names, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("run"):
            self._check_initialised()
        return super().__getattr__(name)

    def _check_initialised(self) -> None:
        if not self._initialised:
            raise Fail("Session not initialized.")
