"""Questions about the package, where ONNX Runtime answers them."""

from clgraph.onnxruntime.names import __version__


def check_distro_info() -> None:
    """Return at once: nothing depends on the distribution."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Return name, version, and the version of CUDA: none."""
    return "onnxruntime", __version__, ""
