"""ONNX Runtime's execution providers: which there are here, and what a session's arguments about them mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.warn import warn
from clgraph.errors import OptionError
from clgraph.onnxruntime.statuses import RefusedError
from clgraph.settings import settings

CPU, OWN = "CPUExecutionProvider", "ClgraphExecutionProvider"
"""What there is: the CPU, as programs ask for it; and any device, with the options of ``clgraph.compile``."""

ALL = (
    "TensorrtExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "CUDAExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "OpenVINOExecutionProvider",
    "DnnlExecutionProvider",
    "VitisAIExecutionProvider",
    "QNNExecutionProvider",
    "NnapiExecutionProvider",
    "CoreMLExecutionProvider",
    "DmlExecutionProvider",
    "WebGpuExecutionProvider",
    "XnnpackExecutionProvider",
    "CANNExecutionProvider",
    "AzureExecutionProvider",
    OWN,
    CPU,
)
"""Names that ONNX Runtime and clgraph know."""


def get_available_providers() -> list[str]:
    """Return the providers that a session can have here, the most general first."""
    return [OWN, CPU]


def get_all_providers() -> list[str]:
    """Return every provider there is a name for."""
    return list(ALL)


@frozen
class Provided:
    """What a session's providers come to.

    Attributes:
        options: The options of those that are here, by name; the CPU last, as always.
        device: What runs the model, as ``clgraph.compile`` takes it.
        config: Further options for it.
    """

    options: dict[str, dict[str, str]]
    device: str
    config: dict[str, str]


def provided_or_cpu(providers: Any = None, provider_options: Any = None) -> Provided:
    """Return :func:`provided`, the CPU with a warning where the arguments mean nothing, as ONNX Runtime falls back."""
    try:
        return provided(providers, provider_options)
    except OptionError as error:
        warn(f"{error}; {CPU} is taken")
        return provided([CPU])


def provided(providers: Any = None, provider_options: Any = None) -> Provided:
    """Return what the arguments of a session mean; those that are not here are warned about, and left out.

    Raises:
        OptionError: They are no names, pairs of name and options, or as many options as names.
    """
    asked = _named(providers, provider_options)
    if asked is None:
        asked = [(name, {}) for name in get_available_providers()]
    found: dict[str, dict[str, str]] = {}
    for name, options in asked:
        if name not in (OWN, CPU):
            warn(f"provider {name!r} is not available here; available are {', '.join(get_available_providers())}")
        elif name in found:
            warn(f"provider {name!r} is named twice; its first options count")
        else:
            found[name] = {str(key): str(value) for key, value in options.items()}
    own = dict(found.get(OWN, {}))
    wished = settings().device
    device = own.pop("device", wished if wished != "auto" or OWN in found else "cpu")
    return Provided({**found, CPU: found.get(CPU, {})}, device, own)


def check_known(providers: Any) -> None:
    """Refuse names that :data:`ALL` does not have, if *providers* are a list of names or of pairs with one.

    Raises:
        RefusedError: There is no such provider (a ``RuntimeError``).
    """
    for name, _ in _named(providers, None) or []:
        if name not in ALL:
            raise RefusedError(f"Unknown Provider Type: {name}")


def check_and_normalize_provider_args(
    providers: Any, provider_options: Any, available_provider_names: Sequence[str]
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the names of providers and the options of each, as texts; those that are not available with a warning.

    Raises:
        OptionError: They are no names, pairs of name and options, or as many options as names (a ``ValueError``).
    """
    found: dict[str, dict[str, str]] = {}
    for name, options in _named(providers, provider_options) or []:
        if name not in available_provider_names:
            warn(f"provider {name!r} is not among {', '.join(available_provider_names)}")
        found.setdefault(name, {str(key): str(value) for key, value in options.items()})
    return list(found), list(found.values())


def _named(providers: Any, provider_options: Any) -> list[tuple[str, Mapping[Any, Any]]] | None:
    if not providers:
        return None
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise OptionError(f"providers are a list of names, as [{CPU!r}], not {providers!r}")
    if provider_options is not None:
        if not isinstance(provider_options, Sequence) or len(provider_options) != len(providers):
            raise OptionError("provider_options are one dictionary a provider, in their order")
        if not all(isinstance(name, str) for name in providers):
            raise OptionError("options of providers come with their names or as provider_options, not both")
        providers = list(zip(providers, provider_options, strict=True))
    found = [(p, {}) if isinstance(p, str) else p for p in providers]
    for pair in found:
        fits = isinstance(pair, tuple | list) and len(pair) == 2
        if not fits or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
            raise OptionError(f"a provider is a name, or a pair of name and dictionary, not {pair!r}")
    return [(name, options) for name, options in found]
