"""The command line of ``tools/bench``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.benchmark.cases import SETS, chosen, is_known, known_models
from tools.benchmark.language_models import LANGUAGE, LANGUAGE_SET
from tools.benchmark.measuring import Schedule, usable_cores
from tools.benchmark.on_gpu import cases
from tools.benchmark.peers import PEERS, installed
from tools.benchmark.scaling import SCALING
from tools.benchmark.streams import STREAMS
from tools.benchmark.throughput import THROUGHPUT
from tools.gpu_compilers.profiles import PROFILES

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"

LAYERS = ["resnet50", "densenet121", "shufflenet", "ocr-det", "mobilenet_v2", "bert_base_128"]
"""Models of the layer tables of ``--everything``."""

COLD = ["resnet50", "ocr-det", "ocr-rec"]
"""Models of its cold starts."""


def arguments(description: str | None) -> argparse.Namespace:
    """Return what the command line asks for; ends the process where that makes no sense."""
    parser = _parser(description)
    options = parser.parse_args()
    _split_sets(options, parser)
    _split_lists(options, parser)
    if options.everything:
        _ask_everything(options, parser)
    _choose_streams(options, parser)
    if options.quick:
        _shorten(options)
    _check(options, parser)
    return options


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("models", nargs="*", help=f"of {', '.join([*known_models(), *LANGUAGE])}, or paths; a shape behind @")
    add(
        "--set",
        dest="sets",
        default="",
        help=f"of {', '.join(SETS)}, language, throughput, ray, comma-separated, or all for the networks",
    )
    add("--against", default=None, help=f"of {', '.join(PEERS)}, comma-separated; those installed by default")
    add("--device", default="auto", help="clgraph's device")
    add("--threads", default=None, help="of every runtime, comma-separated; all usable cores by default")
    add("--no-spinning", action="store_true", help="idle threads of onnxruntime sleep, which is not its default")
    add("--layers", action="append", default=[], metavar="MODEL", help="compare by layer with onnxruntime's profile")
    add("--top", type=int, default=20, help="rows of --layers; 0 for all")
    add("--cold", action="append", default=[], metavar="MODEL", help="measure fresh processes")
    add(
        "--streams-of-shapes",
        default=None,
        nargs="?",
        const=",".join(STREAMS),
        metavar="STREAMS",
        help=f"requests of ever new sizes beside onnxruntime: of {', '.join(STREAMS)}, comma-separated; all by default",
    )
    add("--requests", type=int, default=100, help="of each stream")
    add("--kept-shapes", type=int, default=0, metavar="N", help="bind N different shapes of each stream instead")
    add("--gpu", action="store_true", help="ResNet-50, BERT and products on a GPU, beside torch, errors beside times")
    add(
        "--dry-run",
        action="store_true",
        help="of --gpu: plan everything for a profile and compile its kernels, no more",
    )
    add("--profile", default="h200", choices=list(PROFILES), help="of --dry-run: which GPU to plan for")
    add("--random", type=int, default=0, metavar="N", help="of --set operators: N drawn by chance instead of the table")
    add("--seed", type=int, default=0, help="of --random; the cases of a seed are always the same")
    add("--only", default="", help="of --set and --gpu: models and cases with this in their titles")
    add("--processor-time", action="store_true", help="of all threads, which other processes disturb less; not on GPUs")
    add("--everything", action="store_true", help="all sets, layers, pictures, starts, shapes, AVX2, Intel's runtime")
    add("--quick", action="store_true", help="the first model of each set, few runs")
    add("--plots", type=Path, help="folder for pictures of --layers")
    add("--again", action="store_true", help="of --everything: measure anew what an interrupted run has measured")
    add("--results", type=Path, default=RESULTS, help="folder of --save and --everything; docs/benchmarks by default")
    add("--json", type=Path, help="write what was measured there")
    shown = Schedule()
    for name, text in (
        ("rounds", "blocks of each runtime"),
        ("runs", "most runs of a block that count"),
        ("warm", "runs of a block that do not"),
        ("seconds", "what a block is to last; fewer runs, but 3, where they take longer"),
        ("pause", "seconds before each block"),
    ):
        default = getattr(shown, name)
        add(f"--{name}", type=type(default), default=default, help=f"{text}; {default} by default")
    add("--save", action="store_true", help="write <date>-<device>.json and .md to the folder of results")
    return parser


def _split_sets(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Tell sets of networks from the other kinds of measurements."""
    options.sets = [s for s in options.sets.split(",") if s]
    named = [m for m in options.models if m in LANGUAGE]
    options.language = list(LANGUAGE_SET) if "language" in options.sets else named
    options.throughput = list(THROUGHPUT) if "throughput" in options.sets else []
    options.scaling = list(SCALING) if "ray" in options.sets else []
    options.sets = [s for s in options.sets if s not in ("language", "throughput", "ray")]
    options.models = [m for m in options.models if m not in LANGUAGE]
    if unknown := [s for s in options.sets if s not in (*SETS, "all")]:
        parser.error(f"{unknown[0]} is not a set: {', '.join(SETS)}, language, throughput, ray, all")


def _split_lists(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    peers = options.against
    options.against = [p for p in peers.split(",") if p] if peers is not None else [p for p in PEERS if installed(p)]
    if unknown := [m for m in (*options.models, *options.cold) if not is_known(m)]:
        parser.error(f"{unknown[0]} is not a file, and none of {', '.join(known_models())}")
    if unknown := [p for p in options.against if p not in PEERS]:
        parser.error(f"{unknown[0]} is none of {', '.join(PEERS)}")
    default = sorted({1, usable_cores()}) if options.everything else [usable_cores()]
    options.threads = [int(t) for t in options.threads.split(",")] if options.threads else default


def _ask_everything(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.models or options.json:
        parser.error("--everything goes with neither models nor --json")
    options.sets = options.sets or ["all"]
    options.language = list(LANGUAGE_SET)
    options.layers, options.cold = options.layers or LAYERS, options.cold or COLD


def _choose_streams(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Choose the streams of shapes that are measured, or whose shapes are kept."""
    asked = options.streams_of_shapes
    options.streams = list(STREAMS) if asked is None and "all" in options.sets else (asked or "").split(",")
    options.streams = [name for name in options.streams if name]
    if unknown := [name for name in options.streams if name not in STREAMS]:
        parser.error(f"{unknown[0]} is not a stream: {', '.join(STREAMS)}")
    options.kept = []
    if options.kept_shapes:
        options.kept, options.streams = options.streams or list(STREAMS), []


def _shorten(options: argparse.Namespace) -> None:
    """Leave a few models and runs of each kind."""
    options.requests = 4
    options.rounds, options.seconds = 2, 0.05
    options.layers, options.cold = options.layers[:1], options.cold[:1]
    options.language, options.throughput = options.language[:1], options.throughput[-1:]
    options.scaling = options.scaling[-1:]


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.gpu and not cases(options.quick, options.only):
        parser.error(f"no case of --gpu has {options.only!r} in its title")
    if options.random and options.sets != ["operators"]:
        parser.error("--random draws operators: give --set operators alone")
    if options.sets and not chosen(options.sets, [], options.only):
        parser.error(f"no model of {', '.join(options.sets)} has {options.only!r} in its name")
    kinds = ("gpu", "models", "language", "throughput", "scaling", "sets", "layers", "cold", "streams", "kept")
    if not any(getattr(options, kind) for kind in kinds):
        parser.error("name models, or give --set, --layers, --cold, --streams-of-shapes, --gpu or --everything")
