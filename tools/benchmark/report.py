"""What was measured, as tables on the terminal, in Markdown and in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clgraph.cli.output import say, table
from tools.benchmark.cases import SETS, Goal
from tools.benchmark.found import Found
from tools.benchmark.measuring import Figures, geometric_mean


def show(figures: Figures) -> None:
    """Print the figures of one model."""
    say(f"\n{figures.model}, {figures.threads} threads, {figures.shapes}")
    rows = []
    for runtime, seconds in figures.median.items():
        other = runtime in figures.ratios
        ratio = f"{figures.ratio(runtime):.3f}" if other else ""
        limits = f"{min(figures.ratios[runtime]):.3f} to {max(figures.ratios[runtime]):.3f}" if other else ""
        first = figures.first[runtime]
        error = f"{figures.errors[runtime]:.1e}" if other else ""
        rows.append((runtime, _ms(seconds), _ms(figures.best[runtime]), f"{first:.2f}", ratio, limits, error))
    table(("runtime", "median ms", "best ms", "first s", "clgraph/it", "spread", "error"), rows)


def _ms(seconds: float) -> str:
    """Return milliseconds: two places, below one of them three digits."""
    return f"{seconds * 1e3:.2f}" if seconds >= 1e-3 else f"{seconds * 1e3:.3g}"


def markdown(found: Sequence[Figures]) -> str:
    """Return a table a set and number of threads; ratios below 1 are clgraph's lead, ``best`` that of the best runs."""
    groups: dict[tuple[str, int], list[Figures]] = {}
    for f in found:
        groups.setdefault((f.set, f.threads), []).append(f)
    return "\n\n".join(_section(*key, group) for key, group in sorted(groups.items()))


def _section(name: str, threads: int, found: Sequence[Figures]) -> str:
    peers = list(found[0].ratios)
    goals = SETS[name].goals if name in SETS else {}
    head = ["model", "clgraph ms", *(text for p in peers for text in (f"{p} ms", "ratio", "spread", "best"))]
    lines = [
        f"### {name or 'models'}, {threads} thread{'s' * (threads > 1)}",
        "",
        _row(head),
        _row(["---"] * len(head)),
    ]
    for f in found:
        cells = [f.model, _ms(f.median["clgraph"])]
        for p in peers:
            bound = goals[p].worst_of(f.model) if p in goals else None
            limits = f"{min(f.ratios[p]):.2f}-{max(f.ratios[p]):.2f}"
            cells += [_ms(f.median[p]), _judged(f.ratio(p), bound), limits, f"{f.best_ratio(p):.2f}"]
        lines.append(_row(cells))
    cells = ["geometric mean", ""]
    for p in peers:
        mean = geometric_mean([f.ratio(p) for f in found])
        best = geometric_mean([f.best_ratio(p) for f in found])
        cells += ["", _judged(mean, goals.get(p, Goal(None)).mean), "", f"{best:.2f}"]
    return "\n".join([*lines, _row(cells)])


def _judged(ratio: float, bound: float | None) -> str:
    """Return *ratio*, bold where it is above its bound, with the bound."""
    if bound is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (≤ {bound:.2f})" if ratio <= bound else f"**{ratio:.2f}** (≤ {bound:.2f})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def results_path(folder: Path, about: dict[str, Any]) -> Path:
    """Return where the results measured under the conditions *about* belong: ``<date>-<device>.json``."""
    device = "".join(c if c.isalnum() else "-" for c in about["device"].split()[0]).strip("-")
    return folder / f"{about['date'][:19].replace(':', '')}-{device}.json"


def save(path: Path, about: dict[str, Any], found: Found) -> None:
    """Write everything as JSON to *path*, and the tables as Markdown beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"conditions": about, **found.to_data()}, indent=1) + "\n", encoding="utf-8")
    lines = [f"- {key}: {value}" for key, value in about.items()]
    text = "\n\n".join(["\n".join(lines), *filter(None, [markdown(found.results)]), *found.sections()])
    path.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")
