"""Writes a model into one file: its topology, the programs compiled so far, and the families of shapes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np

from clgraph.engines.option_checks import ANNOTATIONS, PREFERENCES
from clgraph.graph.serial import Json, text_of
from clgraph.graph.topology import Topology
from clgraph.model.keys import Key
from clgraph.model.specialisation import Specialisation
from clgraph.model.specialisations import MEMBERS
from clgraph.network.node_steps import steps_in_libraries
from clgraph.saved.circumstances import circumstances, recorded
from clgraph.saved.container import Blobs
from clgraph.saved.kept_libraries import library_key, library_of
from clgraph.saved.programs import Add, encode_program
from clgraph.saved.topologies import encode_topology
from clgraph.saved.withheld import Withheld
from clgraph.selector.library import Library


def save_model(
    topology: Topology,
    made: Mapping[Key, Specialisation],
    path: str | os.PathLike[str],
    *,
    kept_for: str | None = None,
    stages: Mapping[str, Mapping[Key, Specialisation]] | None = None,
    weights: bool = True,
) -> None:
    """Write *topology* and what was *made* of it to *path*, at once or not at all.

    Of the members of families the file holds what they are for, and the programs of those asked for last; the others
    are bound again.

    Args:
        kept_for: What an entry of the model cache answers. Such a file has no layers and constants of the topology:
            only what is made of it can be run.
        stages: What was made of the stages of a topology that is run in such, by
            :func:`~clgraph.saved.topologies.stage_name`.
        weights: Write the data of constants. Without, nothing is written that is made of them, but the options.

    Raises:
        ModelError: The file cannot be written.
        UnsupportedError: A primitive of a plugin holds something that cannot be written.
    """
    blobs = Blobs()
    if not weights:
        blobs.write(Path(path), _without_weights(topology, made, stages, blobs))
        return
    header: dict[str, Json] = {
        "topology": encode_topology(topology, blobs.add) if kept_for is None else _signatures(topology, blobs.add),
        **_compiled(made, blobs),
        "staged": stages is not None,
        "stages": {name: _compiled(of_stage, blobs) for name, of_stage in (stages or {}).items()},
    }
    if kept_for is not None:
        header["kept_for"] = kept_for
    blobs.write(Path(path), header, in_cache=kept_for is not None)


def _without_weights(
    topology: Topology,
    made: Mapping[Key, Specialisation],
    stages: Mapping[str, Mapping[Key, Specialisation]] | None,
    blobs: Blobs,
) -> dict[str, Json]:
    """Return what compiles the same again where somebody has the weights."""
    withheld = Withheld(topology)
    every = [s for each in (made, *(stages or {}).values()) for s in each.values()]
    return {
        "topology": encode_topology(topology, withheld.add),
        **_compiled({}, blobs),
        "asked_for": [_key(key) for key in made],
        "staged": stages is not None,
        "options": recorded(every[-1].options) if every else {},
        "withheld": withheld.rows,
    }


def _compiled(made: Mapping[Key, Specialisation], blobs: Blobs) -> dict[str, Json]:
    """Return what was *made* of a topology, or of a stage of one."""
    last = [key for key, s in made.items() if s.bound][-MEMBERS:]
    programs = {key: s for key, s in made.items() if not s.bound or key in last}
    libraries: dict[str, Library] = {}
    for s in programs.values():
        libraries |= _libraries(s)
    return {
        "programs": [{**_key(key), **_program(s, blobs)} for key, s in programs.items()],
        "families": next((_families(s, blobs) for s in made.values() if s.families is not None), None),
        "asked_for": [_key(key) for key in made],
        "libraries": {n: [x.name, _text(x.text, blobs), list(x.functions), x.instances] for n, x in libraries.items()},
    }


def _key(key: Key) -> dict[str, Json]:
    values = [[name, v.dtype, list(v.shape), v.data.hex()] for name, v in key.values]
    return {"shapes": [list(shape) for shape in key.shapes], "values": values}


def _program(s: Specialisation, blobs: Blobs) -> dict[str, Json]:
    program = encode_program(s.program, blobs.add, steps=True)
    text = text_of(program)
    return {
        "circumstances": circumstances(s.devices, s.options),
        "arenas": program["arenas"],
        "bound": s.bound,
        "program": _text(text, blobs) if s.bound else text,
        "passes": [[p.number, p.name, p.changes, p.seconds] for p in s.passes],
    }


def _text(text: str, blobs: Blobs) -> Json:
    """Keep a text beside the header: who opens the file reads it where it is wanted."""
    return blobs.add(np.frombuffer(text.encode(), np.uint8))


def _families(s: Specialisation, blobs: Blobs) -> dict[str, Json]:
    # Imported where there are any: what is compiled for fixed shapes needs nothing of them.
    from clgraph.saved.families import encode_families

    assert s.families is not None
    known = encode_families(s.families.all(), blobs.add)
    notes = {name: s.notes[name] for name in (ANNOTATIONS, PREFERENCES) if name in s.notes}
    return {"circumstances": circumstances(s.devices, s.options), "notes": notes, **known}


def _signatures(t: Topology, add: Add) -> Json:
    """Return what a topology says of itself, without layers and constants."""
    known = {"keeps_keys": t.keeps_keys, "indices": [list(astuple(x)) for x in t.indices], "unread": sorted(t.unread)}
    return encode_topology(replace(t, constants={}, layers=[]), add) | known


def _libraries(s: Specialisation) -> dict[str, Library]:
    found: dict[str, Library] = {}
    for node, steps in steps_in_libraries(s.program).items():
        for name in {name: None for _, name in steps if name}:
            simd = s.devices[node.placement or ""].simd
            if (key := library_key(name, simd)) not in found:
                found[key] = library_of(name, simd, s.options.cache_dir)
    return found
