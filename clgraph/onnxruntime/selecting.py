"""Which provider a session takes where its options have a policy, or a function of the program, select a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clgraph.frontend.files import read_model
from clgraph.onnxruntime.enumerations import OrtExecutionProviderDevicePolicy as Policy
from clgraph.onnxruntime.enumerations import OrtHardwareDeviceType as Type
from clgraph.onnxruntime.hardware import OrtEpDevice, get_ep_devices
from clgraph.onnxruntime.providers import CPU
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError

Delegate = Callable[[Sequence[OrtEpDevice], Mapping[str, str], Mapping[str, str], int], Sequence[OrtEpDevice]]
Options = dict[str, dict[str, str]]
"""Options of providers, by name."""

_PREFERRED = {
    Policy.PREFER_GPU: Type.GPU,
    Policy.MAX_PERFORMANCE: Type.GPU,
    Policy.PREFER_NPU: Type.NPU,
    Policy.MAX_EFFICIENCY: Type.NPU,
    Policy.MIN_OVERALL_POWER: Type.NPU,
}
"""What hardware a policy prefers to the CPU, where there is any."""

_MOST = 8
"""How many devices a delegate may return, as with ONNX Runtime."""


def provider_of(chosen: Any, options: Mapping[str, str]) -> Options:
    """Return the provider of devices; of several the first, as a session runs on one.

    Raises:
        MismatchError: They are no sequence of :class:`OrtEpDevice`, or *options* no dictionary.
        InvalidArgument: There is none, or they are of several providers.
    """
    if not isinstance(chosen, Sequence) or not all(isinstance(d, OrtEpDevice) for d in chosen):
        raise MismatchError(f"devices are a list of OrtEpDevice, not {chosen!r}")
    if not isinstance(options, Mapping):
        raise MismatchError(f"options of a provider are a dictionary, not {options!r}")
    if not chosen:
        raise InvalidArgument("Must provide one or more OrtEpDevice instances.")
    if len({d.ep_name for d in chosen}) > 1:
        raise InvalidArgument("All OrtEpDevice values in ep_devices must have the same execution provider.")
    return {chosen[0].ep_name: {**chosen[0].ep_options, **{str(key): str(value) for key, value in options.items()}}}


def selected(policy: Policy | Delegate, source: str | bytes) -> Options:
    """Return the provider for a model that *policy* selects, with its options.

    Raises:
        Fail: A function of the program fails, or selects nothing.
        MismatchError: It returns no devices.
    """
    if not isinstance(policy, Policy):
        return _delegated(policy, source)
    wanted = _PREFERRED.get(policy)
    found = [] if wanted is None else [d for d in get_ep_devices() if d.device.type is wanted]
    return provider_of(found, {}) if found else {CPU: {}}


def _delegated(delegate: Delegate, source: str | bytes) -> Options:
    try:
        chosen = delegate(get_ep_devices(), _about(source), {}, _MOST)
    except Exception as error:
        raise Fail(f"EP selection delegate failed: {type(error).__name__}: {error}") from error
    if not chosen:
        raise Fail("EP selection delegate did not select anything.")
    return {name: options for device in reversed(chosen) for name, options in provider_of([device], {}).items()}


def _about(source: str | bytes) -> dict[str, str]:
    """Return what a model's file says of itself, as ONNX Runtime tells it a delegate."""
    model = read_model(source)[0]
    return {
        "doc_string": model.doc_string,
        "domain": model.domain,
        "graph_description": model.graph.doc_string,
        "graph_name": model.graph.name,
        "model_version": str(model.model_version if model.HasField("model_version") else 2**63 - 1),
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        **{entry.key: entry.value for entry in model.metadata_props},
    }
