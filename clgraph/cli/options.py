"""Options that several commands share, and the model that they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clgraph.cli.preprocess_options import HELP, parse_preprocess
from clgraph.cli.sections import COMPILING, WHERE, Sectioned
from clgraph.core.frozen import frozen
from clgraph.settings import EXECUTORS, PRECISIONS, WEIGHT_GROUPS, WEIGHTS

if TYPE_CHECKING:
    from clgraph.ops.preprocess import Preprocess

F = TypeVar("F", bound=Callable[..., Any])


def _passes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the passes whose names begin like that, for the shell."""
    from clgraph.passes.pipeline import default_pipeline

    return [p.name for p in default_pipeline() if p.name.startswith(incomplete)]


_where = partial(click.option, cls=Sectioned, section=WHERE)
_how = partial(click.option, cls=Sectioned, section=COMPILING)

_WHERE = (
    _where("--device", default="auto", show_default=True, help="Device to run on: see `clgraph devices`."),
    _where(
        "--device-class",
        metavar="[DEVICE=]CLASS",
        help="Class of the kernels to use: auto, cpu or gpu; DEVICE=gpu,...",
    ),
    _where("--threads", type=click.IntRange(min=1), help="Number of worker threads on a CPU device."),
    _where("--executor", type=click.Choice(EXECUTORS), help="Execution of tile functions."),
    _where(
        "--precision",
        type=click.Choice(PRECISIONS),
        help="Type in which values are stored.",
    ),
    _where("--memory-limit", metavar="SIZE", help="Memory limit of the model per device, e.g. '512 MiB'."),
    _where("--cache-dir", type=click.Path(path_type=Path), help="Folder for compiled kernels and models."),
)
_MODEL = (
    click.argument("model", type=click.Path(path_type=Path)),
    _how(
        "--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="Shape of an input; also as 1x3x224x224."
    ),
    _how("--preprocess", multiple=True, metavar="[NAME:]KEY=VALUE,...", help=HELP),
    _how("--weights", type=click.Choice(WEIGHTS[1:]), help="Quantise the float weights of large products."),
    _how(
        "--weights-from",
        type=click.Path(path_type=Path),
        metavar="FILE.onnx",
        help="The ONNX file with the weights, for a MODEL saved without them.",
    ),
    _how(
        "--weight-group",
        type=click.Choice([str(size) for size in WEIGHT_GROUPS]),
        help="Number of weights that share a scale [128].",
    ),
    _how("--keep-f32", multiple=True, metavar="PATTERN", help="Nodes that stay float32, e.g. 'head/*'."),
    _how("--disable-pass", multiple=True, metavar="PASS", shell_complete=_passes, help="Disable an optional pass."),
    _how("--stop-after", metavar="PASS", shell_complete=_passes, help="Run only the required passes after this one."),
    _how("--verify-passes", is_flag=True, help="Check the program and its results after every pass."),
    _how("--force-kernel", multiple=True, metavar="NODE=NAME", help="Use this implementation for a node."),
    _how("--deny-kernel", multiple=True, metavar="NAME", help="Do not use this implementation."),
    _how(
        "--placement",
        multiple=True,
        metavar="PATTERN=DEVICE",
        help="Place nodes whose annotation, name or operator matches; the first matching pattern applies.",
    ),
    _how(
        "--placement-fallback",
        multiple=True,
        metavar="DEVICE",
        help="Devices for nodes that their assigned device does not support.",
    ),
    _how(
        "--placement-budget",
        multiple=True,
        metavar="DEVICE=SIZE",
        help="Memory budget of a device, which is filled with nodes in order, e.g. gpu:0='4 GiB'.",
    ),
    _how("--module", multiple=True, metavar="FILE.py", help="Python file with custom operators to import first."),
    _how("--dump-graphs", type=click.Path(path_type=Path), help="Write the program after every pass to this folder."),
    _how("--dump-data", is_flag=True, help="Include the weights in dumps, so that a dump can be used as MODEL."),
)


@frozen
class DeviceOptions:
    """Where to run, and by which kind of kernels.

    Attributes:
        config: Further options by name, as in :class:`clgraph.settings.Settings`; ``None`` where they are not given.
    """

    device: str
    threads: int | None
    cache_dir: Path | None
    config: Mapping[str, Any]


@frozen
class ModelOptions:
    """What to compile, for which shapes and device, and how.

    Attributes:
        shapes: Of the inputs that were given one.
        cycle: Each set of shapes to be used in turn, the first one ``shapes``; more than one for ``bench`` only.
        images: What is done to those that inputs are fed.
        weights_from: The ONNX file that has the weights of a saved model.
    """

    model: Path
    shapes: Mapping[str, tuple[int, ...]]
    where: DeviceOptions
    config: Mapping[str, Any]
    cycle: tuple[Mapping[str, tuple[int, ...]], ...]
    images: Mapping[str, Preprocess]
    weights_from: Path | None


def device_options(command: F) -> F:
    """Decorator: add the options of :class:`DeviceOptions`, passed on as ``where``."""
    return taking(command, _WHERE, "where", _device)


def model_options(command: F) -> F:
    """Decorator: add the argument and options of :class:`ModelOptions`, passed on as ``options``."""
    return taking(command, (*_MODEL, *_WHERE), "options", _model)


def cycling_model_options(command: F) -> F:
    """Decorator: as :func:`model_options`, with several shapes an input allowed."""
    return taking(command, (*_MODEL, *_WHERE), "options", _cycling_model)


def refuse_idle(flag: str, why: str) -> None:
    """Raise ``click.UsageError`` where the command was given *flag*, which does nothing for the reason *why*."""
    context = click.get_current_context()
    if context.get_parameter_source(flag) is click.core.ParameterSource.COMMANDLINE:
        spelled = next(p.opts[-1] for p in context.command.params if p.name == flag)
        raise click.UsageError(f"{spelled} does nothing {why}")


def parse_shapes(texts: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], ...]:
    """Return sets of shapes by name from ``NAME=1,3,224,224`` or ``NAME=1x3x224x224``; one set at least.

    The n-th set has the n-th shape that each name was given; a name that was given one shape has it in all sets.

    Raises:
        click.UsageError: A text is not of that form, or names were given different numbers of shapes, above one.
    """
    found: dict[str, list[tuple[int, ...]]] = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(",") if size.strip())
        except ValueError:
            equals = ""
        if not equals or not name or min(shape, default=0) < 0:
            raise click.UsageError(f"--shape {text!r} is not NAME=SIZE,SIZE, as in --shape x=1,3,224,224")
        found.setdefault(name, []).append(shape)
    counts = {len(shapes) for shapes in found.values()} - {1}
    if len(counts) > 1:
        raise click.UsageError(
            f"--shape gives inputs different numbers of shapes: {', '.join(map(str, sorted(counts)))}"
        )
    sets = max(counts, default=1)
    return tuple({name: shapes[i % len(shapes)] for name, shapes in found.items()} for i in range(sets))


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[int | tuple[int, int], ...]]:
    """Return shapes by name from ``NAME=1-8,3,224,224``: a dimension is a size, or the ends of a range.

    Raises:
        click.UsageError: A text is not of that form, or names an input twice.
    """
    found: dict[str, tuple[int | tuple[int, int], ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        ends = [_RANGE.fullmatch(size.strip()) for size in sizes.replace("x", ",").split(",")]
        if not name or name in found or None in ends:
            raise click.UsageError(
                f"--prepare names {name!r} twice"
                if name in found
                else f"--prepare {text!r} is not NAME=SIZE,SIZE with ranges, as in --prepare x=1-8,3,64-640,64-640"
            )
        found[name] = tuple((int(m[1]), int(m[2])) if m[2] is not None else int(m[1]) for m in ends if m is not None)
    return found


_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def taking(command: F, options: Sequence[Callable[[Any], Any]], name: str, build: Callable[[dict[str, Any]], Any]) -> F:
    """Add *options* to a command, which gets as *name* what *build* makes of their values, taking them out."""

    def call(**arguments: Any) -> Any:
        return command(**{name: build(arguments)}, **arguments)

    call.__doc__, call.__name__ = command.__doc__, command.__name__
    call.__click_params__ = list(getattr(command, "__click_params__", ()))  # type: ignore[attr-defined]  # as click does
    decorated: Any = call
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]  # a function again


def _device(arguments: dict[str, Any]) -> DeviceOptions:
    config = {name: arguments.pop(name) for name in ("device_class", "executor", "precision", "memory_limit")}
    return DeviceOptions(arguments.pop("device"), arguments.pop("threads"), arguments.pop("cache_dir"), config)


def _model(arguments: dict[str, Any]) -> ModelOptions:
    options = _cycling_model(arguments)
    if len(options.cycle) > 1:
        raise click.UsageError(
            "--shape gives an input more than one shape; only `clgraph bench` cycles through several"
        )
    return options


def _cycling_model(arguments: dict[str, Any]) -> ModelOptions:
    pairs = [text.rpartition("=") for text in arguments.pop("force_kernel")]
    if wrong := [name + equals + kernel for name, equals, kernel in pairs if not (name and kernel)]:
        raise click.UsageError(f"--force-kernel {wrong[0]!r} is not NODE=NAME")
    rules = [text.rpartition("=") for text in arguments.pop("placement")]
    if wrong := [pattern + equals + to for pattern, equals, to in rules if not (pattern and to)]:
        raise click.UsageError(f"--placement {wrong[0]!r} is not PATTERN=DEVICE")
    budgets = [text.rpartition("=") for text in arguments.pop("placement_budget")]
    if wrong := [name + equals + size for name, equals, size in budgets if not (name and size)]:
        raise click.UsageError(f"--placement-budget {wrong[0]!r} is not DEVICE=SIZE")
    config = {
        "disable_passes": frozenset(arguments.pop("disable_pass")) or None,
        "stop_after": arguments.pop("stop_after"),
        "verify_passes": arguments.pop("verify_passes") or None,
        "force_kernels": tuple((name, kernel) for name, _, kernel in pairs) or None,
        "deny_kernels": frozenset(arguments.pop("deny_kernel")) or None,
        "weights": arguments.pop("weights"),
        "weight_group": arguments.pop("weight_group"),
        "keep_f32": frozenset(arguments.pop("keep_f32")) or None,
        "dump_graphs": arguments.pop("dump_graphs"),
        "dump_data": arguments.pop("dump_data") or None,
        "placement": tuple((pattern, to) for pattern, _, to in rules) or None,
        "placement_budget": tuple((name, size) for name, _, size in budgets) or None,
        "modules": arguments.pop("module") or None,
        "placement_fallback": arguments.pop("placement_fallback") or None,
    }
    images = parse_preprocess(arguments.pop("preprocess"))
    cycle, where = parse_shapes(arguments.pop("shapes")), _device(arguments)
    weights_from = arguments.pop("weights_from")
    return ModelOptions(
        arguments.pop("model"), cycle[0], where, {**where.config, **config}, cycle, images, weights_from
    )
