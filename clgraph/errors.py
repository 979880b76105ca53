"""Every exception clgraph raises on purpose.

``except ClgraphError`` catches whatever clgraph can report about a model, a device, an option or a plugin. A class that
stands for a built-in condition derives from that built-in too, so that ordinary Python code can handle it.
"""

import sys
from collections.abc import Iterable
from typing import Any, Self

from clgraph.handlers import is_converted


class ClgraphError(Exception):
    """Base class of all errors of clgraph; none is made of what a signal handler of the program has raised."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a new error; raises what clgraph is about to convert where that is a signal handler's."""
        if is_converted(caught := sys.exception()):
            assert caught is not None
            raise caught
        return super().__new__(cls, *args, **kwargs)


class OptionError(ClgraphError, ValueError):
    """An option, a ``CLGRAPH_*`` variable or a name of a pass, kernel or device means nothing here."""


class RegistrationError(ClgraphError):
    """Two things claim one registry key, or a plugin declares something incomplete."""


class ModelError(ClgraphError, ValueError):
    """A model file cannot be read, or what it holds is not a well-formed graph."""


class FileError(ModelError):
    """A model's file is missing, cannot be read, or holds no model."""


class SchemaError(ModelError):
    """A node does not fit its operator's schema: numbers of inputs and outputs, attributes, element types."""


class MixedTypesError(SchemaError):
    """Inputs of a node that its schema wants to be of one type are of several."""


class UndefinedError(ModelError):
    """A node reads a value that nothing makes."""


class ShapeError(ClgraphError, ValueError):
    """Shapes or element types do not fit the operator; the message names the node."""


class UnsupportedError(ClgraphError):
    """No operator or implementation serves what the model asks for; the message lists who refused and why."""


class OpsetError(UnsupportedError):
    """A model is written for a newer operator set than the installed onnx knows."""


class UnknownValueError(UnsupportedError):
    """A value that must be known when shapes are bound is not.

    Attributes:
        inputs: The model's inputs whose values would tell; none where it depends on more than a few numbers.
        slot: The input of the operator that is not known; ``value`` its name, once the graph has told it.
    """

    def __init__(self, message: str, inputs: Iterable[str] = (), slot: int = 0, value: str = "") -> None:
        """Say what is not known."""
        super().__init__(message)
        self.inputs, self.slot, self.value = tuple(inputs), slot, value


class InputError(ClgraphError, ValueError):
    """A feed of ``run`` is missing, unknown, or has another shape or type than the model expects."""


class TooLargeError(InputError):
    """A request to the server has more bytes than it takes."""


class UnknownModelError(ClgraphError, LookupError):
    """The server has no model, or no version of it, of that name."""


class NotReadyError(ClgraphError):
    """The server has the model and cannot run it: it is loaded, was unloaded, or is broken; or the server ends."""


class GenerationError(ClgraphError, RuntimeError):
    """A text cannot be continued: the model's logits are no numbers."""


class RunCancelledError(ClgraphError):
    """A run was cancelled; the model can be used again."""


class RunTimeoutError(RunCancelledError, TimeoutError):
    """A run took longer than it was given; the model can be used again."""


class QueueFullError(ClgraphError):
    """As many requests wait as the queue holds: the one that came now was not taken, and can be sent again later."""


class ClosedError(ClgraphError, ValueError):
    """The model was closed: its memory is given back."""


class ProgramError(ClgraphError):
    """A program breaks an invariant: a bug in the pass or the kernel that the message names."""


class BindingError(ClgraphError):
    """A program for some shapes cannot be derived from that of their family; the text says why. Nobody outside sees it:
    the shapes are compiled whole then.
    """


class NoImageError(ClgraphError):
    """A network has no image that runs it in another process; the text says why. Nobody outside sees it: programs run.

    Attributes:
        lasts: It will have none next time, either.
    """

    def __init__(self, message: str, *, lasts: bool = True) -> None:
        """Say why."""
        super().__init__(message)
        self.lasts = lasts


class InternalError(ClgraphError):
    """clgraph, or a plugin, did what nobody meant it to: the message names where; the cause is what was raised."""


class DeadlockError(ClgraphError, RuntimeError):
    """What was asked for waits for what only this thread can do, and would wait for ever."""


class DeviceError(ClgraphError, RuntimeError):
    """No such device, or the device or its driver failed."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A buffer is larger than the device can allocate, or the device has no memory left."""


class MemoryLimitError(DeviceMemoryError):
    """A model takes more memory than ``memory_limit`` allows; nothing was allocated for it.

    Attributes:
        found: What it takes, and what is allowed; ``ways`` what would help.
        room: Bytes that the refused program could have taken of the ``device``; below 0 where others leave none.
    """

    def __init__(self, found: str, ways: Iterable[str] = (), room: int = 0, device: str = "") -> None:
        """Say what was found, and the ways out."""
        self.found, self.ways, self.room, self.device = found, tuple(ways), room, device
        super().__init__(f"{found}. What would help: {'; '.join(self.ways)}" if self.ways else found)


class KernelBuildError(DeviceError):
    """An OpenCL source did not compile; the message carries the build log."""


class DownloadError(ClgraphError, OSError):
    """A model of the demo cannot be fetched or has the wrong checksum."""
