"""Resolution of an operator's schema version from the model's opset, and of its importer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clgraph.frontend import protobuf
from clgraph.frontend.adopted import adopted
from clgraph.frontend.functions import has_function
from clgraph.frontend.kept_schemas import Schemas
from clgraph.frontend.microsoft import advice, is_foreign, microsoft_signature
from clgraph.frontend.opsets import domain_of
from clgraph.frontend.signatures import OperatorSignature
from clgraph.graph.importing import IMPORTERS, MICROSOFT, QONNX, Importer

if TYPE_CHECKING:
    from clgraph.frontend.protobuf import defs


class Importers:
    """Finds the importer of a node under the operator sets of one model."""

    def __init__(self, opsets: Mapping[str, int], schemas: Schemas | None = None) -> None:
        """Remember the operator sets, and what tells of their operators: onnx by default."""
        self._opsets, self._schemas = opsets, schemas or Schemas()
        self._versions: dict[tuple[str, str], int | None] = {}
        self._importers: dict[tuple[str, str], Importer | None] = {}
        self._signatures: dict[tuple[str, str], OperatorSignature] = {}
        self._others: dict[tuple[tuple[str, int], ...], Importers] = {}

    def version(self, op_type: str, domain: str) -> int | None:
        """Return the schema version in force, ``None`` where neither onnx nor a plugin knows the operator."""
        key = (domain, op_type)
        if key not in self._versions:
            self._versions[key] = self._find(domain_of(domain), op_type)
        return self._versions[key]

    def get(self, op_type: str, domain: str) -> Importer | None:
        """Return the importer, ``None`` where the version in force has none."""
        key = (domain, op_type)
        if key not in self._importers:
            version = self.version(op_type, domain)
            self._importers[key] = None if version is None else IMPORTERS.get((domain_of(domain), op_type, version))
        return self._importers[key]

    def signature(self, op_type: str, domain: str) -> OperatorSignature | None:
        """Return what onnx says of the operator in the version in force, ``None`` where it does not know it."""
        self.version(op_type, domain)
        return self._signatures.get((domain_of(domain), op_type))

    def function(self, op_type: str, domain: str) -> defs.OpSchema | None:
        """Return the schema of an operator that has no importer and is defined by a function, else ``None``."""
        version = self.version(op_type, domain)
        if version is None or self.get(op_type, domain) is not None or self.signature(op_type, domain) is None:
            return None
        schema = protobuf.defs.get_schema(op_type, version, domain_of(domain))
        return schema if has_function(schema) else None

    def knows(self, op_type: str, domain: str) -> bool:
        """Return whether a node is read, by an importer, by the function of its schema, or as another operator."""
        read = self.get(op_type, domain) is not None or self.function(op_type, domain) is not None
        return read or adopted(op_type, domain) is not None

    def under(self, opsets: Mapping[str, int]) -> Importers:
        """Return what finds importers under *opsets*; a domain that has none there keeps the model's."""
        wanted = {**self._opsets, **{domain_of(domain): version for domain, version in opsets.items()}}
        if wanted == self._opsets:
            return self
        key = tuple(sorted(wanted.items()))
        if key not in self._others:
            self._others[key] = Importers(wanted, self._schemas)
            self._others[key]._others = self._others
        return self._others[key]

    def advice(self, op_type: str, domain: str) -> str | None:
        """Return what to do about an operator that has no importer, where something is known."""
        return advice(domain) if self.get(op_type, domain) is None else None

    def describe(self, op_type: str, domain: str) -> str:
        """Return how to call an operator that has no importer, with the versions that have one."""
        name = f"{domain}.{op_type}" if domain_of(domain) else op_type
        name = name if name.isprintable() else repr(name)
        version = self.version(op_type, domain)
        known = sorted(_read(domain_of(domain), op_type))
        if version is None or not known:
            return name if version is None else f"{name}-{version}"
        return f"{name}-{version} (read are the versions {', '.join(map(str, known))})"

    def _find(self, domain: str, op_type: str) -> int | None:
        # ONNX Runtime takes models that do not import its domain, of which there is one version; qonnx takes the first.
        opset = self._opsets.get(domain, 1 if domain in (MICROSOFT, *QONNX) else None)
        if opset is None:
            return None
        if (found := self._schemas.find(op_type, opset, domain)) is None:
            known = _read(domain, op_type)
            if (signature := microsoft_signature(op_type, domain)) is not None:
                self._signatures[domain, op_type] = signature
            if is_foreign(op_type, domain):
                return min(known)
            return max((v for v in known if v <= opset), default=None)
        since, self._signatures[domain, op_type] = found
        return since


def _read(domain: str, op_type: str) -> list[int]:
    """Return the versions of an operator that have an importer."""
    return [version for _, _, version in IMPORTERS.keys_of(f"{domain}:{op_type}")]
