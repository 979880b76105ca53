"""clgraph on other instruction sets and drivers: measured by ``tools/bench --everything``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clgraph.runtime.device import devices
from tools.benchmark.measuring import Figures, geometric_mean


@dataclass(frozen=True)
class Variant:
    """One way to run clgraph: options of ``tools/bench`` and variables of the environment."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


AVX2 = Variant("avx2", "PoCL, AVX2 instructions", environment=(("CLGRAPH_POCL_ISA", "avx2"),))
INTEL = Variant("intel", "Intel's CPU runtime", arguments=("--device", "intel"))


def variants_here() -> list[Variant]:
    """Return the variants that this machine can run besides its default."""
    found = {d.info.name.partition(":")[0]: d for d in devices()}
    wide = "pocl" in found and found["pocl"].info.simd >= 16
    return [AVX2] * wide + [INTEL] * ("intel" in found)


def variants_markdown(base: Sequence[Figures], found: Mapping[str, Sequence[Figures]]) -> str:
    """Return a table of the ratios to onnxruntime, which has the CPU's full instruction set in every column.

    The last column of a variant is its time relative to that of the default, by way of onnxruntime's beside each.
    """
    names = list(found)
    head = ["model", "threads", "default", *(text for n in names for text in (n, f"{n} / default"))]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    rows: dict[str, list[float]] = {}
    for one in base:
        if "onnxruntime" not in one.ratios:
            continue
        cells = [one.model, str(one.threads), f"{one.ratio('onnxruntime'):.2f}"]
        for name in names:
            same = [f for f in found[name] if (f.model, f.threads) == (one.model, one.threads)]
            ratio = same[0].ratio("onnxruntime") if same else None
            relative = None if ratio is None else ratio / one.ratio("onnxruntime")
            cells += ["" if ratio is None else f"{ratio:.2f}", "" if relative is None else f"{relative:.2f}"]
            if ratio is not None and relative is not None:
                rows.setdefault(name, []).append(ratio)
                rows.setdefault(f"{name} / default", []).append(relative)
        lines.append(f"| {' | '.join(cells)} |")
    means = [f"{geometric_mean(rows[h]):.2f}" if h in rows else "" for h in head[3:]]
    lines.append(f"| geometric mean | | | {' | '.join(means)} |")
    return "\n".join(lines)
