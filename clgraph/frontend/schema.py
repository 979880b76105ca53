"""Which version of an operator a model means, and who imports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, defs

import clgraph.ops  # noqa: F401  # importing the operators registers their importers
from clgraph.errors import ModelError, UnsupportedError
from clgraph.graph.primitive import IMPORTERS, Importer


def opsets_of(model: onnx.ModelProto, label: str) -> dict[str, int]:
    """Return the operator set version by domain, ``""`` for ONNX's own.

    Raises:
        ModelError: The model names none.
        UnsupportedError: It is newer than the installed onnx package knows.
    """
    opsets = {_domain(entry.domain): int(entry.version) for entry in model.opset_import}
    if not opsets:
        raise ModelError(f"{label} does not say which operator set it is written for (opset_import is empty)")
    if (wanted := opsets.get("", 1)) > (known := defs.onnx_opset_version()):
        raise UnsupportedError(
            f"{label} is written for operator set {wanted}; onnx {onnx.__version__} knows those up to {known}: "
            "install a newer onnx"
        )
    return opsets


@dataclass(frozen=True, slots=True)
class Form:
    """What ONNX says a node of one operator and version looks like: numbers of inputs, type codes of attributes.

    Attributes:
        optional: Places of the inputs that may be absent.
    """

    least: int
    most: int
    attributes: Mapping[str, int]
    optional: frozenset[int] = frozenset()

    def problem(self, inputs: Sequence[str], attributes: Iterable[onnx.AttributeProto]) -> str | None:
        """Return what is wrong with a node that has these, ``None`` when nothing is."""
        if not self.least <= len(inputs) <= self.most:
            wanted = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
            return f"has {len(inputs)} inputs, not {wanted}"
        for i, name in enumerate(inputs[: self.least]):
            if not name and i not in self.optional:
                return f"lacks input {i}"
        for attribute in attributes:
            if attribute.type != self.attributes.get(attribute.name, attribute.type):
                wanted = AttributeProto.AttributeType.Name(self.attributes[attribute.name])
                return f"attribute {attribute.name!r} has type {attribute.type}, not {wanted}"
        return None


class Importers:
    """Finds the importer of a node under the operator sets of one model."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        """Remember the operator sets."""
        self._opsets = opsets
        self._versions: dict[tuple[str, str], int | None] = {}
        self._forms: dict[tuple[str, str], Form] = {}

    def version(self, op_type: str, domain: str) -> int | None:
        """Return the schema version in force, ``None`` where neither onnx nor a plugin knows the operator."""
        key = (_domain(domain), op_type)
        if key not in self._versions:
            self._versions[key] = self._find(*key)
        return self._versions[key]

    def get(self, op_type: str, domain: str) -> Importer | None:
        """Return the importer, ``None`` where the version in force has none."""
        version = self.version(op_type, domain)
        return None if version is None else IMPORTERS.get((_domain(domain), op_type, version))

    def problem(self, node: onnx.NodeProto, inputs: Sequence[str]) -> str | None:
        """Return in what a node with a known operator breaks ONNX's rules, ``None`` where nothing is known against it.

        Args:
            inputs: The node's, trailing absent ones cut.
        """
        self.version(node.op_type, node.domain)
        form = self._forms.get((_domain(node.domain), node.op_type))
        return None if form is None else form.problem(inputs, node.attribute)

    def describe(self, op_type: str, domain: str) -> str:
        """Return how to call an operator that has no importer, with the versions that have one."""
        name = f"{domain}.{op_type}" if _domain(domain) else op_type
        version = self.version(op_type, domain)
        known = sorted(v for d, o, v in IMPORTERS if (d, o) == (_domain(domain), op_type))
        if version is None or not known:
            return name if version is None else f"{name}-{version}"
        return f"{name}-{version} (read are the versions {', '.join(map(str, known))})"

    def _find(self, domain: str, op_type: str) -> int | None:
        opset = self._opsets.get(domain)
        if opset is None:
            return None
        try:
            schema = defs.get_schema(op_type, opset, domain)
        except defs.SchemaError:
            known = [v for d, o, v in IMPORTERS if (d, o) == (domain, op_type) and v <= opset]
            return max(known, default=None)
        # The stubs of onnx do not say that the type of an attribute is an integer.
        types = {name: int(a.type) for name, a in schema.attributes.items()}  # type: ignore[call-overload]
        absent = (i for i, p in enumerate(schema.inputs) if p.option == defs.OpSchema.FormalParameterOption.Optional)
        self._forms[domain, op_type] = Form(schema.min_input, schema.max_input, types, frozenset(absent))
        return int(schema.since_version)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
