"""Options of runs, as ONNX Runtime's programs set them; what means nothing here is said once."""

from __future__ import annotations

from typing import Any

from clgraph.network.cancelling import Cancellation
from clgraph.onnxruntime.adapters import LoraAdapter
from clgraph.onnxruntime.attributes import Entries, Typed
from clgraph.onnxruntime.notes import say_once
from clgraph.onnxruntime.statuses import MismatchError


class RunOptions(Typed):
    """Options of one run. ``terminate`` set by another thread ends it, between two steps."""

    __slots__ = ("_adapters", "_config", "cancellation")
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
        object.__setattr__(self, "_config", Entries("RunOptions"))
        object.__setattr__(self, "cancellation", Cancellation())
        object.__setattr__(self, "_adapters", [])

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
        """Have the run read a :class:`LoraAdapter`'s values; of several that have one, the first is read."""
        if not isinstance(adapter, LoraAdapter):
            raise MismatchError(f"an active adapter is a LoraAdapter, not {type(adapter).__name__}")
        self._adapters.append(adapter)

    @property
    def adapted(self) -> dict[str, Any]:
        """The values of the active adapters by the names of initialisers."""
        return {name: array for adapter in self._adapters[::-1] for name, array in adapter.arrays.items()}
