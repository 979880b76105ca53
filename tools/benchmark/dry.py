"""What measuring on a GPU comes to where there is none: plans for its profile, and kernels through its compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from clgraph.compilation.sources import read_source
from clgraph.implementations.matrix_units.nvidia.tiles import TILES
from clgraph.network.node_steps import steps_of
from clgraph.passes.chosen import choice_of
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch
from clgraph.selector.sources import kernel_text
from tools.benchmark.on_gpu import TORCH, Case, load_case
from tools.benchmark.on_torch import unserved
from tools.benchmark.peers import installed
from tools.benchmark.probing import COUNTED, KILOBYTES, SPIN, filled, one_product, tile_plan
from tools.gpu_compilers.profiles import PROFILES
from tools.gpu_compilers.report import Compiled
from tools.gpu_compilers.texts import Text, distinct, planned, texts_of


@dataclass(frozen=True)
class Dry:
    """A case that was planned for a profile.

    Attributes:
        launches: Their number by the implementation that plans them.
        texts: The number of kernels that the case compiles; ``refused``: what the compiler says against some.
        compiler: Why nothing was compiled; empty where it was.
        torch: What torch's part of the measurement would do here.
    """

    case: Case
    launches: Counter[str]
    texts: int
    refused: tuple[str, ...]
    compiler: str
    torch: str


def dry(case: Case, profile: str) -> Dry:
    """Plan *case* for the GPU called *profile* and compile its kernels; nothing is run.

    Raises:
        ClgraphError: The model does not run on such a GPU.
    """
    model, feeds = load_case(case)
    shapes = {name: array.shape for name, array in feeds.items()}
    program = planned(read_source(model, None, None), shapes, PROFILES[profile].info, case.precision)
    launches = Counter(choice_of(n).name for n in program if not n.in_place for _ in steps_of(n))
    texts, why_not = distinct(texts_of(program, chosen=True)), PROFILES[profile].why_not() or ""
    made = [] if why_not else [_compiled(text, profile) for text in texts]
    refused = tuple(f"{m.text.name} {m.text.variant}: {m.error}" for m in made if m.error)
    version = installed("torch")
    missing = unserved(model)
    torch = f"torch {version or 'is not installed'}" if not missing else f"no torch function for {missing[0]}"
    return Dry(case, launches, len(texts), refused, why_not, torch)


def dry_probe(question: str, profile: str) -> list[str]:
    """Return what the compiler makes of the kernels of a question of ``tools/probe_gpu``."""
    device = PROFILES[profile]
    if reason := device.why_not():
        return [f"not compiled: {reason}"]
    found = []
    for what, text in _texts_of(question, profile).items():
        made = _compiled(text, profile)
        figures = f"{made.registers} registers, {made.local} bytes of local memory"
        found.append(f"{what}: {made.error.splitlines()[0] if made.error else figures}")
    return found


def _texts_of(question: str, profile: str) -> dict[str, Text]:
    if question == "local":
        return {f"{k} KiB": Text("filled", Jit(), filled(k), (256,)) for k in KILOBYTES}
    if question == "grid":
        return {"counted": Text("counted", Jit(), COUNTED, (1, 1, 1))}
    if question == "launch":
        return {"spin": Text("spin", Jit(), SPIN, (64,))}
    if question == "rounding":
        return {"one product": Text("rounding", Jit(), one_product(), (32,))}
    if question == "build":
        return {"matmul_nvidia": Text("matmul_nvidia", Jit(), kernel_text("matmul/matmul_nvidia.cl"), (128, 1, 1))}
    found = {}
    for tile in TILES:
        for step in tile_plan(tile, 4096, PROFILES[profile].info)[1].steps:
            assert isinstance(step, Launch)
            text = Text(step.entry, step.jit, f"{step.jit}{kernel_text(step.source)}", step.group or ())
            found[f"{tile.unit} {step.entry}"] = text
    return found


def dry_markdown(found: Sequence[Dry], profile: str) -> str:
    """Return a table of the plans."""
    lines = ["| model | precision | launches | of | kernels | beside |", "|---|---|---:|---|---|---|"]
    for one in found:
        of = ", ".join(f"{number} {name}" for name, number in one.launches.most_common())
        kernels = f"{one.texts - len(one.refused)} of {one.texts} compiled"
        cells = [one.case.name, one.case.precision, str(one.launches.total()), of]
        cells += [f"{one.texts}: {one.compiler}" if one.compiler else kernels, f"{', '.join(TORCH)}: {one.torch}"]
        lines.append(f"| {' | '.join(cells)} |")
    refused = dict.fromkeys(text for one in found for text in one.refused)
    head = f"Planned for the profile {profile}; kernels are compiled where it says so. Nothing was run or measured."
    return "\n".join([head, "", *lines, *(f"\n{text}" for text in refused)])


@lru_cache(maxsize=512)
def _compiled(text: Text, profile: str) -> Compiled:
    return PROFILES[profile].compile(text, loops=False)
