"""Options without effect: an error if they contradict the devices in use, else a note of the program.

Every option has an entry in one of three tables: ``CONTRADICTS`` (:mod:`clgraph.engines.contradictions`), against the
devices in use, before anything is compiled; ``IDLE``, against a compiled program; ``ALWAYS``, with the reason why there
is nothing to say. What comes from the environment is meant for whatever is run in that shell: where it contradicts the
devices, that is a note, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from clgraph.core.log import Log
from clgraph.engines.contradictions import OF_KERNELS, InUse, contradictions, given, in_use_of, spell
from clgraph.errors import OptionError
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.selector.query import BFLOATS, DeviceInfo
from clgraph.settings import PRODUCT_PRECISIONS, Settings, settings, variable_of

if TYPE_CHECKING:
    from clgraph.graph.program import Program
    from clgraph.selector.choose import Choice

NOTE = "options"
"""The note of a program that says which options did nothing."""
PREFERENCES = "preferences"
"""That which says which pairs of ``placement`` and ``force_kernels`` did nothing: by the model, not the program."""
ANNOTATIONS = "annotations"
"""That which says which annotations of the model did nothing."""
_ANNOTATION = "annotation "

_log = Log(__name__)

LOGGING = "it is the command line's; in Python, logging.basicConfig(level='{level}') shows messages"


class Compiled(Protocol):
    """A compiled program or model with its options and notes."""

    @property
    def notes(self) -> Mapping[str, str]:
        """The notes of the program, by subject."""

    @property
    def options(self) -> Settings:
        """The options."""


def check_options(options: Settings, in_use: InUse) -> None:
    """Raise ``OptionError`` for options of a call that cannot have an effect.

    Those of the environment become notes (:func:`idle_options`), and so do those about kernels where the host or null
    takes the place of a device.

    Raises:
        OptionError: An option contradicts the devices in use, or another one.
    """
    for name, why in contradictions(options, in_use).items():
        excused = name in OF_KERNELS and not in_use.has("cpu", "gpu")
        if not excused and getattr(options, name) != getattr(settings(), name):
            raise OptionError(f"{name}={spell(getattr(options, name))} does nothing: {why}")


def idle_options(
    options: Settings, program: Program, devices: Iterable[DeviceInfo], engines: Mapping[str, Engine | HostEngine]
) -> list[str]:
    """Return a line for each option that has done nothing to a *program* compiled for *devices*, run on *engines*."""
    against = contradictions(options, in_use_of(options, devices))
    lines = [f"{name}={spell(getattr(options, name))} does nothing: {why}" for name, why in against.items()]
    for name in given(options, IDLE):
        if name not in against:
            lines += [f"{name}={value} does nothing: {why}" for value, why in IDLE[name](options, program, engines)]
    return lines


def note_idle(
    program: Program, options: Settings, devices: Iterable[DeviceInfo], engines: Mapping[str, Engine | HostEngine]
) -> None:
    """Leave in the notes of a *program* compiled for *devices*, run on *engines*, which options did nothing to it."""
    note(program, NOTE, idle_options(options, program, devices, engines))


def note(program: Program, name: str, lines: Iterable[str]) -> None:
    """Set the note *name* of a program to *lines*; without lines, remove it."""
    program.notes.pop(name, None)
    if text := "\n".join(lines):
        program.notes[name] = text


def annotation_lines(annotations: Iterable[str]) -> list[str]:
    """Return a line for each of *annotations*, which place nothing."""
    why = "does nothing: it names no device, and no pattern of placement fits it"
    return [f"{_ANNOTATION}{name!r} {why}" for name in annotations]


def is_about_annotation(line: str) -> bool:
    """Whether a note is one of :func:`annotation_lines`, which are logged as warnings too, once a model."""
    return line.startswith(_ANNOTATION)


def warn(lines: Iterable[str]) -> None:
    """Log *lines* as warnings."""
    for line in lines:
        _log.warning("%s", line)


def idle_notes(made: Iterable[Compiled]) -> tuple[str, ...]:
    """Return the lines about options that affected none of a model's programs, and annotations that placed nothing."""
    made = list(made)
    if not made:
        return ()
    notes = [{name: s.notes.get(name, "").splitlines() for name in (NOTE, PREFERENCES, ANNOTATIONS)} for s in made]
    everywhere = [
        line for name in (NOTE, PREFERENCES) for line in notes[0][name] if all(line in n[name] for n in notes)
    ]
    anywhere = dict.fromkeys(line for n in notes for line in n[ANNOTATIONS])
    return (*log_level_note(made[0].options), *everywhere, *anywhere)


def log_level_note(options: Settings) -> tuple[str, ...]:
    """Return the note of a ``CLGRAPH_LOG_LEVEL`` that this process does not follow: only the command line does."""
    level = options.log_level.upper()
    if not given(options, ["log_level"]):
        return ()
    import logging  # here, because a start that says nothing does without

    if logging.getLogger("clgraph").isEnabledFor(logging.getLevelName(level)):
        return ()
    return (f"{variable_of('log_level')}={options.log_level} does nothing: {LOGGING.format(level=level)}",)


Engines = Mapping[str, Engine | HostEngine]
Idle = Callable[[Settings, "Program", Engines], list[tuple[str, str]]]
"""Returns what of an option that was given has done nothing to a program, each with the reason."""


def _choices(program: Program) -> list[Choice]:
    from clgraph.selector.choose import Choice

    return [node.choice for node in program if isinstance(node.choice, Choice)]


def _idle_denials(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    from clgraph.selector.implementation import IMPLEMENTATIONS

    kinds = {node.primitive.kind for node in program}
    known = {name: IMPLEMENTATIONS[name].primitive.kind for name in options.deny_kernels if name in IMPLEMENTATIONS}
    return [(name, f"no node is a {kind}") for name, kind in sorted(known.items()) if kind not in kinds]


def _idle_executor(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    if options.poison and options.executor == "persistent":
        return [(options.executor, "with poison each step is launched by itself")]
    return [] if "executor" in program.notes else [(options.executor, "no node is run by a tile function")]


def _idle_recording(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    return [("1", "with poison each step is launched by itself")] if options.poison else []


def _idle_float32(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    if "convert_precision" in program.notes or options.weights != Settings.weights:
        return []
    return [(spell(options.keep_f32), f"with precision={options.precision} all nodes stay float32 here")]


def _idle_order(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    if not engines or any(isinstance(e, Engine) and e.stream.out_of_order for e in engines.values()):
        return []
    return [("1", "no device in use has a queue that runs out of order")]


def _idle_precision(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    wanted = options.precision
    if wanted in PRODUCT_PRECISIONS and not any(wanted in c.implementation.serves.features for c in _choices(program)):
        return [(wanted, "no node is run by such products")]
    if wanted == "bf16" and any(BFLOATS in c.implementation.serves.features for c in _choices(program)):
        return []
    said = program.notes.get("convert_precision", "0 ")
    if wanted in ("f16", "bf16") and said.startswith("0 ") and "products on CPUs read" not in said:
        return [(wanted, f"no node stores {wanted}; the note of convert_precision has the reasons")]
    return []


def _idle_weights(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    from clgraph.passes.quantization.few_bits import Compressed

    if any(map(Compressed.read, program.notes.get("compress_weights", "").splitlines())):
        return []
    return [(options.weights, "no product or embedding has 65536 float weights that may be compressed")]


def _idle_tuning(options: Settings, program: Program, engines: Engines) -> list[tuple[str, str]]:
    path = Path(options.tuning).expanduser()
    return [] if options.tuning == "off" or path.is_file() else [(options.tuning, "there is no such file")]


IDLE: Mapping[str, Idle] = {
    "command_buffers": _idle_recording,
    "deny_kernels": _idle_denials,
    "executor": _idle_executor,
    "keep_f32": _idle_float32,
    "out_of_order": _idle_order,
    "precision": _idle_precision,
    "tuning": _idle_tuning,
    "weights": _idle_weights,
}
"""Options that fit nothing of some programs."""

ALWAYS: Mapping[str, str] = {
    "cache_dir": "a place, whatever is kept there",
    "deterministic": "a promise, kept by what has no stages, too",
    "device": "a name that fits no device is an error",
    "disable_passes": "a name that fits no pass is an error",
    "dump_graphs": "a program that is dumped is compiled anew",
    "force_kernels": "a node or kernel that is none is an error",
    "log_level": "an error in a call, and log_level_note",
    "memory_limit": "a limit",
    "model_cache": "a limit",
    "modules": "what cannot be imported is an error",
    "placement": "a pattern that fits nothing is an error, and one behind others that fit all of it a note",
    "placement_budget": "a limit; a device that runs no part is an error",
    "placement_fallback": "a permission",
    "quantised_products": "a permission",
    "shape_cache": "a limit",
    "plugins": "a name that fits no plugin is an error",
    "split_batch": "a permission",
    "stop_after": "a name that fits no pass is an error",
    "verify_passes": "every program is checked",
    "winograd": "a permission",
}
"""Options with nothing to be said about here, and why."""
