"""What the explorer shows of a model, which is compiled with a dump of every pass and run with the clock on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from clgraph.core.frozen import frozen
from clgraph.errors import OptionError
from clgraph.explorer.document import View
from clgraph.explorer.history import History, read_histories
from clgraph.frontend.export import export_outline
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.model.memory_report import MemoryReport, memory_report
from clgraph.model.model import Model
from clgraph.network.steps import steps_of
from clgraph.selector.plan import Launch, Tile
from clgraph.selector.query import DeviceInfo
from clgraph.selector.sources import kernel_files_called, source_text


@frozen
class Watched:
    """A model compiled with a dump of every pass."""

    model: Model
    histories: tuple[History, ...]


def watched(compile_into: Callable[[Path], Model]) -> Watched:
    """Return the model that *compile_into* compiles, which is given the folder that it is to dump the passes into.

    Raises:
        ClgraphError: The model cannot be compiled.
    """
    with tempfile.TemporaryDirectory(prefix="clgraph-view-") as folder:
        model = compile_into(Path(folder))
        return Watched(model, read_histories(Path(folder)))


def view_of(name: str, found: Watched, feeds: Mapping[str, Array] | None) -> View:
    """Return the view of a model that was compiled, run once on *feeds* where they are given.

    Raises:
        ClgraphError: The run fails.
    """
    model = found.model
    profile = None
    if feeds is not None:
        model.run(feeds)
        profile = model.profile(feeds)
    programs = {"": model.program} if len(found.histories) == 1 else {}
    memory = {label: memory_report(program) for label, program in programs.items() if program.arenas}
    return View(name, model.device, found.histories, model.explain(), profile, memory, kernel_texts(programs.values()))


def view_of_dump(name: str, folder: Path) -> View:
    """Return the view of a dump in *folder*: without decisions and times, which dumps do not hold.

    Raises:
        ModelError: There is none, or it is damaged.
    """
    nothing: dict[str, MemoryReport] = {}
    return View(name, DeviceInfo(), read_histories(folder), None, None, nothing, {})


def kernel_texts(programs: Iterable[Program]) -> dict[str, str]:
    """Return the source of every kernel and tile function that *programs* run, by the names of their steps."""
    found: dict[str, str] = {}
    for program in programs:
        for node in program:
            for step in steps_of(node):
                if isinstance(step, Launch):
                    found.setdefault(step.name, source_text(step.source))
                elif isinstance(step, Tile):
                    (file,) = kernel_files_called(f"{step.function}.cl")
                    found.setdefault(step.name, source_text(file))
    return found


def write_onnx(folder: Path, views: Sequence[View]) -> int:
    """Write the program after every pass as an ONNX file, ``NN_name.onnx``, into *folder*; return how many.

    Raises:
        OptionError: A file cannot be written.
    """
    count = 0
    for view in views:
        for history in view.histories:
            for step in history.steps:
                name = step.name if step.number < 0 else f"{step.number:02}_{step.name}"
                path = folder / (view.name if len(views) > 1 else "") / history.label / f"{name}.onnx"
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(export_outline(step.outline, f"{view.name} after {step.name}").SerializeToString())
                except OSError as error:
                    raise OptionError(f"{path} cannot be written: {error}") from error
                count += 1
    return count
