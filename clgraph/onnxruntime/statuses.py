"""The exceptions of ONNX Runtime's Python API, and which of them each error of clgraph becomes.

A text begins as ONNX Runtime's do, with code and name of the status, which programs look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from clgraph.errors import (
    ClgraphError,
    FileError,
    InputError,
    MixedTypesError,
    ModelError,
    OpsetError,
    OptionError,
    RunCancelledError,
    SchemaError,
    ShapeError,
    UndefinedError,
    UnsupportedError,
)


class StatusError(ClgraphError):
    """A failure with a code. ``except ClgraphError`` catches it too.

    Attributes:
        code, status: Number and name, as ``onnxruntime_c_api.h`` has them.
    """

    code: ClassVar[int] = 1
    status: ClassVar[str] = "FAIL"

    def __init__(self, message: str = "") -> None:
        """Say what failed."""
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.status} : {message}")
        self.message = message


class Fail(StatusError):
    """Something failed that has no code of its own."""


class InvalidArgument(StatusError):
    """An argument, a feed or an option means nothing here."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(StatusError):
    """There is no such model file."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(StatusError):
    """There is no model."""

    code, status = 4, "NO_MODEL"


class EngineError(StatusError):
    """The engine failed."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(StatusError):
    """A run failed."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(StatusError):
    """The bytes are no ONNX model."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(StatusError):
    """The model was loaded before."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(StatusError):  # the name that programs catch
    """clgraph does not have it."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(StatusError):
    """The graph is not well formed."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(StatusError):
    """A device failed."""

    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(StatusError):
    """Loading was cancelled."""

    code, status = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(StatusError):
    """The model has to be compiled first."""

    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(StatusError):
    """What was asked for is not there."""

    code, status = 14, "NOT_FOUND"


class DeviceReset(StatusError):
    """The device was reset."""

    code, status = 15, "DEVICE_RESET"


class Misfit(Fail, InvalidArgument):
    """Shapes or indices of a run do not fit each other: ``Fail`` or ``InvalidArgument``, as the operator has it."""

    code, status = Fail.code, Fail.status


EXCEPTIONS: tuple[type[StatusError], ...] = (
    DeviceReset,
    EPFail,
    EngineError,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)


class RefusedError(ClgraphError, RuntimeError):
    """An error for which ONNX Runtime raises a plain ``RuntimeError``."""


class MismatchError(ClgraphError, TypeError):
    """What ONNX Runtime refuses by a plain ``TypeError``: an argument of another type."""


@contextmanager
def statuses(*, loading: bool = False) -> Iterator[None]:
    """Turn clgraph's errors into ONNX Runtime's; *loading* a model, or running one."""
    try:
        yield
    except (StatusError, RefusedError, MismatchError):
        raise
    except RunCancelledError as error:
        raise Fail(f"Exiting due to terminate flag being set to true: {error}") from error
    except ClgraphError as error:
        raise _status(error, loading=loading)(_text(error)) from error


@contextmanager
def plainly(what: str) -> Iterator[None]:
    """Turn clgraph's errors into a plain ``RuntimeError``, as ONNX Runtime does where it knows no statuses."""
    try:
        yield
    except ClgraphError as error:
        raise RefusedError(f"{what}: {error.message if isinstance(error, StatusError) else error}") from error


def _status(error: ClgraphError, *, loading: bool) -> type[StatusError]:
    match error:
        case FileError():
            return status_of_file(error)
        case SchemaError():
            return Fail if isinstance(error, MixedTypesError) else InvalidGraph
        case InputError() | OptionError() | UndefinedError():
            return InvalidArgument
        case ShapeError() if not loading:
            return Misfit
        case ShapeError() | OpsetError():
            return Fail
        case UnsupportedError():
            return NotImplemented
        case ModelError() if loading:
            return Fail
    return RuntimeException


def _text(error: ClgraphError) -> str:
    """Return what went wrong; that a model file is not there in ONNX Runtime's words, which programs look for."""
    if isinstance(error, FileError) and isinstance(error.__cause__, FileNotFoundError):
        path = error.__cause__.filename
        return f"Load model from {path} failed:Load model {path} failed. File doesn't exist"
    return str(error)


def status_of_file(error: FileError) -> type[StatusError]:
    """Return the status of a file that was not read: by why it was not. One without a graph has no cause."""
    if isinstance(error.__cause__, FileNotFoundError | ValueError):  # the latter where no file can be called so
        return NoSuchFile
    return InvalidArgument if error.__cause__ is None else InvalidProtobuf
