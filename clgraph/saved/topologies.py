"""Topologies as JSON and back; layers and constants of a file are looked up lazily."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np

from clgraph.core.digests import blake2
from clgraph.core.dtype import DType
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.graph.about import About
from clgraph.graph.fed_indices import FedIndices
from clgraph.graph.host_types import has_strings
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.serial import Json, PrimitiveOf, decode, decode_primitive, encode, make_primitive
from clgraph.graph.signature import Dimension, Signature
from clgraph.graph.topology import Topology
from clgraph.graph.typed import fits

_Signature = tuple[str, str | None, list[Dimension] | None]
_SPARSE = "sparse "
LAYER_FORM = tuple[str, Any, list[str], list[str], list[str], str | None]
"""Of a layer as JSON: what :func:`encode_layer` returns, and a file may hold."""
_FORM = {
    "inputs": list[_Signature],
    "outputs": list[tuple[str, str]],
    "declared": list[_Signature],
    "metadata": dict[str, str],
    "op_types": dict[str, str],
    "expanded": dict[str, str],
    "noted": dict[str, str],
    "about": tuple[str, str, str, int | None, str, str, str, int, list[tuple[str, int]]],
    "listed": list[str],
    "overridable": list[_Signature],
    "deciding": list[str],
    "keeps_keys": bool,
    "indices": list[tuple[str, int, str]],
    "unread": list[str],
    "constants": list[tuple[str, Any]],
    "layers": list[LAYER_FORM],
}
"""Of a topology as JSON: what :func:`encode_topology` returns, and a file may hold."""


class SavedTopology(Topology):
    """A topology whose ``layers`` and ``constants`` are read at first use: only compiling needs them."""

    _read: Callable[[], dict[str, Any]]
    _keeps_keys: bool
    _indices: tuple[FedIndices, ...]
    _unread: frozenset[str]

    @property
    def keeps_keys(self) -> bool:
        """Whether a layer takes past keys and values; as the file says, so that none is read for it."""
        return self._keeps_keys if "_keeps_keys" in self.__dict__ else super().keeps_keys

    @property
    def indices(self) -> tuple[FedIndices, ...]:
        """The inputs whose elements are indices into constants; as the file says, so that no layer is read for it."""
        return self._indices if "_indices" in self.__dict__ else super().indices

    @property
    def unread(self) -> frozenset[str]:
        """The inputs that nothing reads; as the file says, so that no layer is read for it."""
        return self._unread if "_unread" in self.__dict__ else super().unread

    def read_by(self, read: Callable[[], dict[str, Any]]) -> None:
        """Let *read* return the attributes that are not there yet."""
        self._read = read

    def __getattr__(self, name: str) -> Any:
        """Read what is not there yet."""
        if name not in ("layers", "constants") or "_read" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__.update(self._read())
        return self.__dict__[name]


def encode_topology(topology: Topology, add: Callable[[Array], Json]) -> Json:
    """Return *topology*; *add* takes the data of a constant and returns what stands for it.

    Raises:
        UnsupportedError: A primitive holds something that cannot be written.
    """
    return {
        "inputs": [_signature(s) for s in topology.inputs.values()],
        "outputs": [list(pair) for pair in topology.outputs],
        "declared": [_signature(s) for s in topology.declared.values()],
        "metadata": dict(topology.metadata),
        "op_types": dict(topology.op_types),
        "about": [list(x) if isinstance(x, tuple) else x for x in astuple(topology.about)[:-1]],
        "listed": list(topology.about.listed),
        "overridable": [_signature(s) for s in topology.overridable.values()],
        "deciding": sorted(topology.deciding),
        "expanded": dict(topology.expanded),
        "noted": dict(topology.noted),
        "keeps_keys": topology.keeps_keys,
        "indices": [list(astuple(x)) for x in topology.indices],
        "unread": sorted(topology.unread),
        "constants": [[name, _constant(array, add)] for name, array in topology.constants.items()],
        "layers": [encode_layer(layer, add) for layer in topology.layers],
    }


def stage_name(topology: Topology) -> str:
    """Return what a stage is called in a file: the same for the same layers and types."""
    return f"{topology.label} {blake2(str(topology).encode()).hexdigest()[:16]}"


def encode_layer(x: Layer, add: Callable[[Array], Json]) -> Json:
    """Return a layer; *add* as :func:`encode_topology`, and raises as that."""
    return [x.name, _encode(x.primitive, add), list(x.inputs), list(x.outputs), list(x.origin), x.annotation]


def decode_layer(data: Json, array: Callable[[Json], Array], primitive_of: PrimitiveOf) -> Layer:
    """Return the layer that :func:`encode_layer` wrote; raises ``ModelError`` where *data* is none."""
    with well_formed("a saved layer"):
        name, primitive, reads, makes, origin, annotation = data
        made = _decode(primitive, array, primitive_of)
        return Layer(name, made, tuple(reads), tuple(makes), tuple(origin), annotation)


def decode_topology(data: Json, array: Callable[[Json], Array], primitive_of: PrimitiveOf) -> Topology:
    """Return the topology that :func:`encode_topology` wrote.

    Raises:
        ModelError: *data* is no such topology. What is read later raises it then.
    """

    def read() -> dict[str, Any]:
        with well_formed("a saved topology"):
            constants = {name: _read_constant(held, array) for name, held in data["constants"]}
            layers = [decode_layer(row, array, primitive_of) for row in data["layers"]]
        made = {*inputs, *constants}
        for layer in layers:
            if missing := [name for name in layer.inputs if name not in made]:
                raise ModelError(
                    f"a saved topology is damaged: layer {layer.name!r} reads {missing[0]!r}, which no layer produces"
                )
            made.update(layer.outputs)
        if missing := [source for _, source in outputs if source not in made]:
            raise ModelError(f"a saved topology is damaged: no layer produces its output {missing[0]!r}")
        return {"constants": constants, "layers": layers}

    topology = SavedTopology.__new__(SavedTopology)
    with well_formed("a saved topology"):
        for part, form in _FORM.items():
            if part in data and not fits(data[part], form):
                raise ModelError(f"a saved topology is damaged: its {part} are not of the form {form}")
        topology.inputs = {s.name: s for s in map(_read_signature, data["inputs"])}
        topology.outputs = [(name, value) for name, value in data["outputs"]]
        topology.declared = {s.name: s for s in map(_read_signature, data["declared"])}
        topology.metadata = dict(data["metadata"])
        topology.op_types = dict(data.get("op_types", {}))
        topology.expanded = dict(data.get("expanded", {}))
        topology.noted = dict(data.get("noted", {}))
        if "about" in data:
            about: list[Any] = [tuple(map(tuple, x)) if isinstance(x, list) else x for x in data["about"]]
            topology.about = replace(About(*about), listed=tuple(data.get("listed", [])))
        topology.deciding = frozenset(data.get("deciding", []))
        topology.overridable = {s.name: s for s in map(_read_signature, data.get("overridable", []))}
        topology._keeps_keys = bool(data.get("keeps_keys", False))
        topology._indices = tuple(FedIndices(*x) for x in data.get("indices", []))
        topology._unread = frozenset(data.get("unread", []))
    inputs, outputs = topology.inputs, topology.outputs  # what reads the rest keeps no topology alive
    topology._read = read
    return topology


def _encode(primitive: Primitive, add: Callable[[Array], Json]) -> Json:
    """Return *primitive*, the bodies of control flow as topologies of their own."""
    from clgraph.graph.interpret import ControlFlow

    if not isinstance(primitive, ControlFlow):
        return encode(primitive)
    values = {f.name: getattr(primitive, f.name) for f in fields(primitive)}  # type: ignore[arg-type]  # a dataclass
    bodies = {n: encode_topology(v, add) for n, v in values.items() if isinstance(v, Topology)}
    return {
        "kind": primitive.kind,
        "bodies": bodies,
        "rest": [[n, encode(v)] for n, v in values.items() if n not in bodies],
    }


def _decode(data: Json, array: Callable[[Json], Array], primitive_of: PrimitiveOf) -> Primitive:
    if isinstance(data, dict):
        bodies = {name: decode_topology(body, array, primitive_of) for name, body in data["bodies"].items()}
        rest = {name: decode(value, primitive_of) for name, value in data["rest"]}
        return make_primitive(primitive_of(data["kind"]), {**bodies, **rest})
    return decode_primitive(data, primitive_of)


def _constant(array: Array, add: Callable[[Array], Json]) -> Json:
    """Return what stands for a constant: for strings a dictionary that holds them."""
    return {"strings": array.ravel().tolist(), "shape": list(array.shape)} if has_strings(array) else add(array)


def _read_constant(held: Json, array: Callable[[Json], Array]) -> Array:
    if not isinstance(held, dict) or "strings" not in held:
        return array(held)
    if not fits(held["strings"], list[str]):
        raise ModelError("a saved topology is damaged: its strings are not valid")
    return np.array(held["strings"], object).reshape(held["shape"])


def _signature(s: Signature) -> Json:
    dtype = None if s.dtype is None else s.dtype.name
    spelled = f"{_SPARSE}{dtype}" if s.sparse else s.host_type or dtype
    return [s.name, spelled, None if s.shape is None else list(s.shape)]


def _read_signature(data: Json) -> Signature:
    name, dtype, shape = data
    if any(isinstance(d, int) and d < 0 for d in shape or ()):
        raise ModelError(f"a saved topology is damaged: {name!r} has the shape {shape}")
    dims = None if shape is None else tuple(shape)
    if dtype is not None and dtype.endswith(")"):
        return Signature(name, None, dims, dtype)
    known = None if dtype is None else DType[dtype.removeprefix(_SPARSE)]
    return Signature(name, known, dims, sparse=dtype is not None and dtype.startswith(_SPARSE))
