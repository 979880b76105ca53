"""The same names as the extension module's, as programs import them."""

from clgraph.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
