"""The package's name and version, where programs look for them."""

from clgraph.onnxruntime.names import __version__

package_name = "onnxruntime"

__all__ = ["__version__", "package_name"]
