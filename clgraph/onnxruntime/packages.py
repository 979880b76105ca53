"""What can be imported and not used here: packages of compiled models, data of compiled nodes, and streams."""

from __future__ import annotations

from typing import Any, NoReturn

from clgraph.onnxruntime.statuses import NotImplemented as NotHere


class Absent:
    """A class of ONNX Runtime that has no objects here."""

    _advice = ""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refuse. Raises ``NotImplemented``, always."""
        raise NotHere(f"{type(self).__name__}: {self._advice}")


class ModelPackage(Absent):
    """A folder of a model's variants for several providers."""

    _advice = "packages of variants for ONNX Runtime's providers are not read: open the ONNX model of a variant"

    @staticmethod
    def open(*_: Any, **__: Any) -> NoReturn:
        """Refuse. Raises ``NotImplemented``, always."""
        raise NotHere(f"ModelPackage: {ModelPackage._advice}")


class ModelPackageContext(Absent):
    """A package whose variants a session chooses from."""

    _advice = ModelPackage._advice


class ModelPackageOptions(Absent):
    """Options that choose a variant."""

    _advice = ModelPackage._advice


class ModelPackageComponentContext(Absent):
    """A variant that was chosen."""

    _advice = ModelPackage._advice


class OrtEpContextData(Absent):
    """Data of a node that a provider has compiled."""

    _advice = "clgraph writes no EPContext nodes: Model.save keeps what it compiles"


class OrtEpContextDataBuffer(Absent):
    """Where data of a node goes that a provider has compiled."""

    _advice = OrtEpContextData._advice


class OrtSyncStream(Absent):
    """A stream of a device."""

    _advice = "results are in the host's memory when a run returns: there is no stream to wait for"
