"""Options of sessions and runs, as ONNX Runtime's programs set them; what means nothing here is said once.

An option that only asks for another way to the same results is taken and logged. One that asks for other results, or
for what clgraph does not have, is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from clgraph.network.cancelling import Cancellation
from clgraph.onnxruntime.statuses import Fail, MismatchError, RefusedError
from clgraph.onnxruntime.statuses import NotImplemented as NotHere

log = logging.getLogger("clgraph.onnxruntime")


class GraphOptimizationLevel(IntEnum):
    """How far ONNX Runtime would optimise a graph; clgraph's passes are named by its own options."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether ONNX Runtime would run independent nodes at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order ONNX Runtime would run nodes."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_said: set[str] = set()


def say_once(text: str, level: int = logging.INFO) -> None:
    """Log *text*, at the first call with it only."""
    if text not in _said:
        _said.add(text)
        log.log(level, "%s", text)


class _Typed:
    """Attributes with types and defaults; another name or type is an error, as with ONNX Runtime's own classes."""

    __slots__ = ("_values",)
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(self.defaults))

    def __getattr__(self, name: str) -> Any:
        if name in self.defaults:
            return self._values[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.defaults:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        wanted = type(self.defaults[name])
        try:
            if issubclass(wanted, str) != isinstance(value, str):
                raise TypeError  # noqa: TRY301  # the same end as of a value that cannot be converted
            self._values[name] = wanted(value)
        except (TypeError, ValueError) as error:
            raise MismatchError(f"{name} is of type {wanted.__name__}, not {value!r}") from error

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.defaults})


class _Entries:
    """Configuration entries: texts by name."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.entries: dict[str, str] = {}

    def add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise MismatchError(f"a configuration entry is two texts, not {key!r} and {value!r}")
        self.entries[key] = value

    def get(self, key: str) -> str:
        if key not in self.entries:
            raise RefusedError(f"{self._what} has no configuration entry {key!r}")
        return self.entries[key]


class SessionOptions(_Typed):
    """Options of an :class:`InferenceSession`.

    ``intra_op_num_threads`` is clgraph's number of threads, ``enable_profiling`` writes a trace; initialisers and free
    dimensions can be replaced. The others choose among ways of ONNX Runtime.
    """

    __slots__ = ("_config", "_initializers", "by_denotation", "by_name")
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
    _USED = ("enable_profiling", "intra_op_num_threads", "optimized_model_filepath", "profile_file_prefix")
    _LOGGING = ("log_severity_level", "log_verbosity_level", "logid")

    def __init__(self) -> None:
        """Take the defaults."""
        super().__init__()
        object.__setattr__(self, "_config", _Entries("SessionOptions"))
        object.__setattr__(self, "_initializers", {})
        object.__setattr__(self, "by_name", {})
        object.__setattr__(self, "by_denotation", {})

    @property
    def initializers(self) -> Mapping[str, Any]:
        """Values that replace initialisers of the model, by name."""
        found: Mapping[str, Any] = self._initializers
        return found

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Add an entry; raises where a model in ONNX Runtime's own format is asked for."""
        if key == "session.load_model_format" and str(value).upper() == "ORT":
            raise NotHere("models in ONNX Runtime's own format are not read: give the ONNX model")
        self._config.add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry; raises ``RuntimeError`` where there is none."""
        found: str = self._config.get(key)
        return found

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Let the open dimension called *name* have *size*."""
        self.by_name[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Let open dimensions with the *denotation* have *size*."""
        self.by_denotation[denotation] = int(size)

    def add_initializer(self, name: str, value: Any) -> None:
        """Let an initialiser of the model have another *value*, an ``OrtValue``."""
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Let initialisers of the model have other *values*."""
        self._initializers.update(zip(names, values, strict=True))

    def register_custom_ops_library(self, path: str) -> None:
        """Refuse: a library for ONNX Runtime cannot run here. Raises ``Fail``, always."""
        raise Fail(
            f"the library {path!r} is made for ONNX Runtime and holds no OpenCL: write its operators with "
            "clgraph.custom_op, and name the file by CLGRAPH_MODULES"
        )

    def add_provider(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """Refuse: providers are given to the session. Raises ``NotImplemented``, always."""
        raise NotHere(f"give {name!r} to the session: InferenceSession(model, providers=[...])")

    def has_providers(self) -> bool:
        """Return whether providers were added: never."""
        return False

    def say_unused(self) -> None:
        """Log once for each option that is set, but means nothing here."""
        for name, default in self.defaults.items():
            if name not in (*self._USED, *self._LOGGING) and self._values[name] != default:
                say_once(f"SessionOptions.{name} = {self._values[name]!s}: no meaning in clgraph, results are the same")
        for key, value in self._config.entries.items():
            say_once(f"session configuration {key} = {value}: no meaning in clgraph")


class RunOptions(_Typed):
    """Options of one run. ``terminate`` set by another thread ends it, between two steps."""

    __slots__ = ("_config", "cancellation")
    defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def __init__(self) -> None:
        """Take the defaults."""
        super().__init__()
        object.__setattr__(self, "_config", _Entries("RunOptions"))
        object.__setattr__(self, "cancellation", Cancellation())

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate":
            if self.terminate:
                self.cancellation.cancel()
            else:
                self.cancellation.renew()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Add an entry; it is logged, and has no meaning."""
        self._config.add(key, value)
        say_once(f"run configuration {key} = {value}: no meaning in clgraph")

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry; raises ``RuntimeError`` where there is none."""
        found: str = self._config.get(key)
        return found

    def add_active_adapter(self, adapter: Any) -> None:
        """Refuse: adapters change results, and clgraph does not have them. Raises ``NotImplemented``, always."""
        raise NotHere("LoRA adapters are not read: merge them into the model's weights")
