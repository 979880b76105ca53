"""Contexts and queues of OpenCL that a caller has made: devices under names of their own, ``pocl:0@1``."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from clgraph.errors import DeviceError
from clgraph.runtime import calling_thread, driver, handles


class CallersQueue:
    """A device in a context of the caller's, and the queue to run on there; clgraph releases neither.

    Attributes:
        name: What ``device=`` takes: that of the device, ``@``, and a number.
        device: The name of the device, as :func:`clgraph.devices` has it.
        handle: The ``pyopencl.Device``.
        context: The ``pyopencl.Context``.
        queue: The ``pyopencl.CommandQueue``; ``None``: one of clgraph's in this context.
    """

    __slots__ = ("__weakref__", "context", "device", "handle", "name", "queue")

    def __init__(self, device: str, handle: Any, context: Any, queue: Any) -> None:
        """Give the pair a name that no other one of this process has."""
        self.name = f"{device}@{next(_NUMBERS)}"
        self.device, self.handle, self.context, self.queue = device, handle, context, queue

    def __repr__(self) -> str:
        return f"<{self.name}: a {'context' if self.queue is None else 'queue'} of the caller>"


def adopt(context: Any = None, queue: Any = None) -> CallersQueue:
    """Return what stands for a caller's *queue*, or for a *context* of one device; the same for the same.

    Args:
        context: A ``pyopencl.Context``, or the address of a ``cl_context``.
        queue: A ``pyopencl.CommandQueue``, or the address of a ``cl_command_queue``.

    Raises:
        DeviceError: They are none, do not belong together, have been released, or the context has several devices.
    """
    handles.named_handles()  # the drivers are prepared before anything is asked of them
    cl = driver.load()
    context = _object(cl, cl.Context, context, "context")
    queue = _object(cl, cl.CommandQueue, queue, "queue")
    try:
        if queue is not None:
            if context is not None and context != queue.context:
                raise DeviceError("the queue belongs to another context: give the queue alone, or its own context")
            context, handle = queue.context, queue.device
        elif context is None:
            raise DeviceError("neither a context nor a queue was given")
        else:
            handle = _only(context)
    except cl.Error as error:
        raise DeviceError(f"the context or the queue cannot be used: {error}") from error
    for known in list(_ADOPTED.values()):
        if known.context == context and known.queue == queue and known.handle == handle:
            return known
    found = CallersQueue(_name_of(handle), handle, context, queue)
    _ADOPTED[found.name] = found
    return found


def adopted(name: str) -> CallersQueue:
    """Return what :func:`adopt` has called *name*; raises ``DeviceError`` where nothing is called so any more."""
    try:
        return _ADOPTED[name]
    except KeyError:
        raise DeviceError(f"no context or queue is called {name!r}, or nothing uses it any more") from None


def _object(cl: Any, kind: type, given: Any, what: str) -> Any:
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, int) and given >= _LEAST_ADDRESS:
        try:
            return kind.from_int_ptr(given, True)  # type: ignore[attr-defined]  # of pyopencl's classes
        except cl.Error as error:
            raise DeviceError(f"{given:#x} is no {what}: {error}") from error
    raise DeviceError(f"a {what} is pyopencl's, or the address of one, not {given!r}")


def _only(context: Any) -> Any:
    there = context.get_info(driver.load().context_info.DEVICES)
    if len(there) != 1:
        raise DeviceError(f"the context has {len(there)} devices: give a queue on one of them")
    return there[0]


def _name_of(handle: Any) -> str:
    """Return the name of the device, of the one that it is a part of, or that stands for the same cores."""
    for name, known in handles.named_handles().items():
        if handle == known or calling_thread.stands_beside(handle, known):
            return name
    parent = handle.get_info(driver.load().device_info.PARENT_DEVICE)
    if parent is None:
        raise DeviceError(f"{handle.name} is not one of the devices that clgraph finds: `clgraph devices` lists them")
    return _name_of(parent)


_LEAST_ADDRESS = 1 << 16
"""No system maps memory below: what is smaller is not an address, and a driver would crash on it."""

_NUMBERS = itertools.count(1)
_ADOPTED: weakref.WeakValueDictionary[str, CallersQueue] = weakref.WeakValueDictionary()
