"""A device of numbers alone: what kernels for it would be chosen, where there is none."""

from clgraph.selector.query import SM80, DeviceInfo

H200 = DeviceInfo(
    "nvidia:0",
    "gpu",
    "NVIDIA Corporation",
    compute_units=132,
    local_bytes=48 << 10,
    features=SM80,
    flops=6.05e13,
    bytes_per_second=4.2e12,
    launch_seconds=6e-6,
)
