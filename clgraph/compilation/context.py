"""The context of devices and options that passes, and the binding of members, depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.engines.opening import placement_of
from clgraph.engines.records import is_dry
from clgraph.graph.topology import Topology
from clgraph.passes.base import Build, Context, Execute
from clgraph.selector.implementation import DIGITS, SOME_MAPS, WINOGRAD
from clgraph.selector.query import BFLOATS, DeviceInfo
from clgraph.settings import PRODUCT_PRECISIONS, Settings


def context_of(
    devices: Mapping[str, DeviceInfo], options: Settings, execute: Execute | None = None, build: Build | None = None
) -> Context:
    """Return the context of *devices*, by placement, under *options*."""
    return Context(
        devices=_allowed(devices, options),
        **({} if is_dry(options) else placement_of(options)),
        out_of_order=options.out_of_order,
        split_batch=options.split_batch,
        precision=options.precision,
        keep_f32=options.keep_f32,
        weights=options.weights,
        weight_group=options.weight_group,
        forced=dict(options.force_kernels),
        denied=options.deny_kernels | _denied(options),
        execute=execute,
        build=build,
    )


def _denied(options: Settings) -> frozenset[str]:
    """Return the tags of implementations whose rounding *options* do not allow."""
    tags = {WINOGRAD: not options.winograd, DIGITS: options.quantised_products == "exact"}
    return frozenset(tag for tag, denied in tags.items() if denied)


def for_families(context: Context, topology: Topology) -> Context:
    """Return the context of the representatives of *topology*: a batch is cut where members are bound.

    Where more than a batch is open, what transforms weights for some sizes is denied: members of others would be
    compiled whole.
    """
    shapes = [s.shape for s in topology.inputs.values() if not s.host_type]
    fixed = all(shape is not None and all(isinstance(d, int) for d in shape[1:]) for shape in shapes)
    denied = context.denied if fixed else context.denied | {SOME_MAPS}
    return replace(context, op_types=topology.op_types, split_batch=False, denied=denied)


def _allowed(devices: Mapping[str, DeviceInfo], options: Settings) -> Mapping[str, DeviceInfo]:
    """Return *devices* with what *options* allow kernels to do as their features."""
    allowed = {BFLOATS} if options.precision == "bf16" else {options.precision} & set(PRODUCT_PRECISIONS)
    return {name: replace(info, features=info.features | allowed) for name, info in devices.items()}
