"""What the explorer shows of a model, which is compiled with a dump of every pass and run with the clock on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from clgraph.errors import OptionError
from clgraph.explorer.document import ModelView
from clgraph.explorer.history import PLANNED, History, Step, read_histories
from clgraph.frontend.export import export_outline
from clgraph.graph.outline import outline
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.model.model import Model
from clgraph.model.stages.model import StagedModel
from clgraph.network.node_steps import steps_of
from clgraph.network.profile import Profile
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.library import tile_file
from clgraph.selector.plan import Launch, Tile
from clgraph.selector.query import DeviceInfo
from clgraph.selector.sources import source_text


def view_of(name: str, compile_into: Callable[[Path], Model], run: Callable[[Model], Profile | None]) -> ModelView:
    """Return the view of a model.

    Args:
        compile_into: Compiles it, given the folder that it is to dump the passes into.
        run: Runs it with the clock on; returns ``None`` where it is not to be run.

    Raises:
        ClgraphError: The model cannot be compiled, or the run fails; or nothing of it is compiled without a run.
    """
    with tempfile.TemporaryDirectory(prefix="clgraph-view-") as folder:
        model = compile_into(Path(folder))
        profile = run(model)
        programs = _programs(model)
        if not programs:
            why = (
                "its sizes are open, or what a run brings decides them"
                if profile is None
                else "the host computes all of it"
            )
            raise OptionError(f"no pass has run over {name}, because {why}: there is nothing to show")
        histories = read_histories(Path(folder))
    return ModelView(name, model.device, histories, model.explain(), profile, kernel_texts(programs))


def profiled(model: Model, feeds: Mapping[str, Array]) -> Profile:
    """Return what a run took at each node, behind one that makes what is made at the first; raises as that."""
    model.run(feeds)
    return model.profile(feeds)


def view_of_run(name: str, model: Model, profile: Profile) -> ModelView:
    """Return the view of what *model* ran last as it was planned, without its passes, and of what that took."""
    programs = [list(m.compiled.values())[-1].program for m in _models(model) if m.compiled]
    labels = [m.topology.label for m in _models(model) if m.compiled]
    histories = tuple(
        History(label, (Step(-1, PLANNED, 0, 0.0, outline(program)),))
        for label, program in zip(labels, programs, strict=True)
    )
    return ModelView(name, model.device, histories, model.explain(), profile, kernel_texts(programs))


def view_of_dump(name: str, folder: Path) -> ModelView:
    """Return the view of a dump in *folder*: without decisions and times, which dumps do not hold.

    Raises:
        ModelError: There is none, or it is damaged.
    """
    return ModelView(name, DeviceInfo(), read_histories(folder), None, None, {})


def _programs(model: Model) -> list[Program]:
    """Return every program that is compiled, of all shapes and stages."""
    return [made.program for m in _models(model) for made in m.compiled.values()]


def _models(model: Model) -> tuple[Model, ...]:
    """Return the models of the stages of *model*, itself where it has none."""
    return model.stages if isinstance(model, StagedModel) else (model,)


def kernel_texts(programs: Iterable[Program]) -> dict[str, str]:
    """Return the source of every kernel and tile function that *programs* run, by the names of their steps."""
    found: dict[str, str] = {}
    for program in programs:
        for node in program:
            for step in steps_of(node):
                if isinstance(step, Launch):
                    found.setdefault(step.name, source_text(step.source))
                elif isinstance(step, Tile):
                    file = tile_file(DESCRIPTORS[step.function])
                    found.setdefault(step.name, source_text(file))
    return found


def write_onnx(folder: Path, views: Sequence[ModelView]) -> int:
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
