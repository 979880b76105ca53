"""A target from outside: ACME's devices, here any PoCL device, run a convolution with its relu as one operator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from acme_clgraph.conv_relu import ConvRelu
from acme_clgraph.fuse_conv_relu import FuseConvRelu
from acme_clgraph.report import Report
from clgraph.core.format import Format
from clgraph.passes.targets.target import Phase, Target, TargetPass, register
from clgraph.selector.query import DeviceInfo
from clgraph.selector.sources import add_kernel_directory

__all__ = ["ConvRelu"]


def _is_ours(info: DeviceInfo) -> bool:
    return info.name.startswith("pocl")


def _profile(info: DeviceInfo) -> DeviceInfo:
    return replace(info, features=info.features | {"acme"})


add_kernel_directory(Path(__file__).parent / "kernels")
register(
    Target(
        name="acme",
        matches=_is_ours,
        profile=_profile,
        layouts={ConvRelu.kind: Format.plain},
        passes=(
            TargetPass(Phase.TENSOR_SELECTION, FuseConvRelu()),
            TargetPass(Phase.CODE_EMISSION, Report()),
        ),
    )
)
