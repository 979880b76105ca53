"""Options of sessions, as ONNX Runtime's programs set them; what means nothing here is said once.

An option that only asks for another way to the same results is taken and logged. One that asks for other results, or
for what clgraph does not have, is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.onnxruntime.attributes import Entries, Typed
from clgraph.onnxruntime.enumerations import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from clgraph.onnxruntime.enumerations import OrtExecutionProviderDevicePolicy as Policy
from clgraph.onnxruntime.hardware import OrtEpDevice
from clgraph.onnxruntime.notes import say_once
from clgraph.onnxruntime.providers import ALL, CPU, OWN
from clgraph.onnxruntime.selecting import Delegate, provider_of
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError, RefusedError
from clgraph.onnxruntime.statuses import NotImplemented as NotHere

ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""The entry of a configuration that has a session tell which provider has which nodes."""
NO_CPU = "session.disable_cpu_ep_fallback"
"""The entry of a configuration that has sessions refused that would run on the CPU."""

_WORST = 4
"""The number of the highest severity, of fatal errors."""


class SessionOptions(Typed):
    """Options of an :class:`InferenceSession`.

    ``intra_op_num_threads`` is clgraph's number of threads, ``enable_profiling`` writes a trace; initialisers and free
    dimensions can be replaced. The others choose among ways of ONNX Runtime.

    Attributes:
        by_name, by_denotation: Sizes of open dimensions; the first that was given for a name counts.
        initializers, external: Values that replace initialisers of the model, and what its file has beside it.
        files: Contents of files beside the model, by the names that the model has for them.
        providers: Options of the providers that were added, by name.
        policy: What selects the device of a session that names no providers, where anything does.
        cancelled: Whether no session is to be made.
    """

    by_name: dict[str, int]
    by_denotation: dict[str, int]
    initializers: dict[str, Any]
    external: dict[str, Any]
    files: dict[str, memoryview]
    providers: dict[str, dict[str, str]]
    policy: Policy | Delegate | None
    cancelled: bool

    _HELD = ("by_denotation", "by_name", "external", "files", "initializers", "providers")
    __slots__ = ("_config", "cancelled", "policy", *_HELD)
    defaults = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    _USED = (
        "enable_profiling",
        "intra_op_num_threads",
        "optimized_model_filepath",
        "profile_file_prefix",
        "use_deterministic_compute",
    )
    _LOGGING = ("log_severity_level", "log_verbosity_level", "logid")

    def __init__(self) -> None:
        """Take the defaults."""
        super().__init__()
        object.__setattr__(self, "_config", Entries("SessionOptions"))
        for name in self._HELD:
            object.__setattr__(self, name, {})
        object.__setattr__(self, "cancelled", False)
        object.__setattr__(self, "policy", None)

    def held(self) -> SessionOptions:
        """Return a copy for a session, which what the program does with these later does not reach."""
        made = SessionOptions()
        made._values.update(self._values)
        made._config.entries.update(self._config.entries)
        for name in self._HELD:
            getattr(made, name).update(getattr(self, name))
        object.__setattr__(made, "cancelled", self.cancelled)
        object.__setattr__(made, "policy", self.policy)
        return made

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Add an entry; raises where a model in ONNX Runtime's own format is asked for."""
        if key in ("session.load_model_format", "session.save_model_format") and str(value).upper() == "ORT":
            raise NotHere("models in ONNX Runtime's own format are neither read nor written: use ONNX models")
        self._config.add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry; raises ``RuntimeError`` where there is none."""
        found: str = self._config.get(key)
        return found

    def check_severity(self) -> None:
        """Refuse a severity that there is not; raises ``RuntimeError``."""
        if not -1 <= self.log_severity_level <= _WORST:
            raise RefusedError(f"log_severity_level is {self.log_severity_level}: severities are 0 to {_WORST}")

    def entry(self, key: str) -> str:
        """Return an entry, empty where there is none."""
        found: str = self._config.entries.get(key, "")
        return found

    def asks_for(self, key: str) -> bool:
        """Return whether an entry is ``"1"``."""
        return self.entry(key) == "1"

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Let the open dimension called *name* have *size*."""
        self.by_name.setdefault(*_sized(name, size))

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Let open dimensions with the *denotation* have *size*."""
        self.by_denotation.setdefault(*_sized(denotation, size))

    def add_initializer(self, name: str, value: Any) -> None:
        """Let an initialiser have another *value*, an ``OrtValue``, in models that have one called so.

        Raises:
            RefusedError: It has one already, or *value* is none (a ``RuntimeError``).
            MismatchError: The name is not a text.
        """
        if not isinstance(name, str):
            raise MismatchError(f"an initialiser is named by a text, not {name!r}")
        if name in self.initializers:
            raise RefusedError(f"An OrtValue for initialiser {name!r} has already been added")
        self.initializers[name] = _value(value)

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Let initialisers of the model have other *values*; a model without one of the *names* is refused."""
        if len(names) != len(values):
            raise RefusedError(f"Expecting names and values of the same number, not {len(names)} and {len(values)}")
        self.external.update(zip(names, map(_value, values), strict=True))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Let the files beside the model have these contents, of which the first bytes count."""
        if not len(names) == len(buffers) == len(lengths):
            raise RefusedError("Expecting names, buffers and lengths of the same number")
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self.files[name] = memoryview(buffer).cast("B")[: int(length)]

    def register_custom_ops_library(self, path: str) -> None:
        """Refuse: a library for ONNX Runtime cannot run here. Raises ``Fail``, always."""
        raise Fail(
            f"the library {path!r} is made for ONNX Runtime and holds no OpenCL: write its operators with "
            "clgraph.custom_op, and name the file by CLGRAPH_MODULES"
        )

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Let sessions that name no providers use this one, behind those that were added before.

        Raises:
            RefusedError: There is no such provider (a ``RuntimeError``).
            InvalidArgument: It is not here.
        """
        if name not in (OWN, CPU):
            refusal = InvalidArgument if name in ALL else RefusedError
            raise refusal(f"Unknown Provider Type: {name}; here are {OWN} and {CPU}")
        self.providers[name] = {str(key): str(value) for key, value in options.items()}

    def add_provider_for_devices(self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]) -> None:
        """Let sessions that name no providers run on one of *devices*, the first of them.

        Raises:
            InvalidArgument: There is none, or they are of several providers.
            MismatchError: They are no devices, or the options no dictionary.
        """
        self.providers.update(provider_of(devices, options))

    def has_providers(self) -> bool:
        """Return whether providers were added, or are selected."""
        return bool(self.providers) or self.policy is not None

    def set_provider_selection_policy(self, policy: Policy) -> None:
        """Let sessions that name no providers run on the hardware that *policy* prefers, where there is any.

        Raises:
            MismatchError: It is no ``OrtExecutionProviderDevicePolicy``.
        """
        if not isinstance(policy, Policy):
            raise MismatchError(f"a policy is an OrtExecutionProviderDevicePolicy, not {policy!r}")
        object.__setattr__(self, "policy", policy)

    def set_provider_selection_policy_delegate(self, delegate: Delegate) -> None:
        """Let a function select devices: it takes them, the model's metadata, an empty dictionary, and how many.

        Raises:
            MismatchError: It cannot be called.
        """
        if not callable(delegate):
            raise MismatchError(f"a delegate is a function, not {delegate!r}")
        object.__setattr__(self, "policy", delegate)

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        """Log that no node has data that a provider has compiled."""
        say_once("SessionOptions.set_ep_context_data_read_func: clgraph reads no EPContext nodes")

    def clear_ep_context_data_read_func(self) -> None:
        """Return at once: no such function is kept."""

    def set_load_cancellation_flag(self, value: bool) -> None:
        """Let sessions not be made while *value* holds; one that is being made is finished."""
        object.__setattr__(self, "cancelled", bool(value))

    def say_unused(self) -> None:
        """Log once for each option that is set, but means nothing here."""
        for name, default in self.defaults.items():
            if name not in (*self._USED, *self._LOGGING) and self._values[name] != default:
                say_once(f"SessionOptions.{name} = {self._values[name]!s}: no meaning in clgraph, results are the same")
        for key, value in self._config.entries.items() - {(ASSIGNMENT, "1"), (NO_CPU, "1")}:
            say_once(f"session configuration {key} = {value}: no meaning in clgraph")


def _sized(name: str, size: int) -> tuple[str, int]:
    """Return a dimension's name and size; raises ``MismatchError`` where they are no text and no whole number."""
    if not isinstance(name, str) or not hasattr(size, "__index__"):
        raise MismatchError(f"a free dimension is overridden by a name and a whole number, not {name!r} and {size!r}")
    return name, operator.index(size)


def _value(given: Any) -> Any:
    """Return *given*, which is an ``OrtValue``; raises ``RefusedError`` for what is none."""
    if not hasattr(given, "_ortvalue"):
        raise RefusedError(f"an initialiser is an OrtValue, not {type(given).__name__}")
    return given
