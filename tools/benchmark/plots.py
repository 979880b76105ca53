"""Pictures of a profile: the roofline of its layers, and the layers beside another runtime's; all ratios in one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clgraph.selector.query import DeviceInfo
from tools.benchmark.layers import Layer
from tools.benchmark.measuring import Figures

_COLOURS = ("#3b6ea5", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#7f7f7f")


def figure_of(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure and its axes that are drawn without a screen, in SVG text that stays the same."""
    from matplotlib import rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rcParams.update({"svg.hashsalt": "clgraph", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def roofline(layers: Sequence[Layer], device: DeviceInfo, title: str, path: Path) -> None:
    """Draw arithmetic a second over arithmetic a byte of each layer, under what the device's peaks allow.

    The bytes are those of the layer's inputs and outputs: what is still in a cache may lie above the slope.
    """
    figure, axes = figure_of(7.0, 4.2)
    shown = [x for x in layers if x.flops and x.nbytes and x.seconds]
    kinds = sorted({x.kernels[0] for x in shown}, key=lambda k: -sum(x.seconds for x in shown if x.kernels[0] == k))
    for colour, kind in zip(_COLOURS, [*kinds[:5], None], strict=True):
        of = [x for x in shown if (x.kernels[0] == kind if kind else x.kernels[0] in kinds[5:])]
        if of:
            axes.scatter(
                [x.flops / x.nbytes for x in of],
                [x.flops / x.seconds / 1e9 for x in of],
                s=[max(6.0, 400 * x.seconds / sum(y.seconds for y in shown)) for x in of],
                color=colour,
                alpha=0.7,
                linewidths=0,
                label=kind or "others",
            )
    peak, rate = device.flops / 1e9, device.bytes_per_second / 1e9
    xs = [0.1, peak / rate, 1000.0]
    axes.plot(xs, [min(peak, rate * x) for x in xs], color="black", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="GFLOP/s", title=title)
    axes.annotate(f"{peak:.0f} GFLOP/s", (xs[2], peak), ha="right", va="bottom")
    axes.annotate(f"{rate:.0f} GB/s", (xs[0], rate * xs[0]), ha="left", va="bottom", rotation=35)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    _write(figure, path)


def comparison(layers: Sequence[Layer], peer: str, title: str, path: Path, most: int = 40) -> None:
    """Draw the time of each of the *most* longest layers beside the other runtime's, in the model's order."""
    longest = sorted(layers, key=lambda x: -max(x.seconds, x.other_seconds))[:most]
    shown = [x for x in layers if any(x is y for y in longest)]
    figure, axes = figure_of(max(6.0, 0.2 * len(shown) + 1.5), 3.8)
    places = range(len(shown))
    axes.bar([p - 0.2 for p in places], [x.seconds * 1e6 for x in shown], 0.4, color=_COLOURS[0], label="clgraph")
    axes.bar([p + 0.2 for p in places], [x.other_seconds * 1e6 for x in shown], 0.4, color=_COLOURS[1], label=peer)
    axes.plot(places, [x.bound * 1e6 for x in shown], "_", color="black", markersize=7, label="roofline")
    names = [(x.nodes[0] if x.nodes else "elsewhere")[-24:] for x in shown]
    axes.set_xticks(list(places), names, rotation=90, fontsize=6)
    axes.set(ylabel="us", title=title)
    axes.margins(x=0.01)
    axes.legend(frameon=False)
    _write(figure, path)


def ratios(found: Sequence[Figures], path: Path) -> None:
    """Draw clgraph's time divided by each peer's: a row a model, a mark a peer and number of threads."""
    names = [(f.set, f.model) for f in found]
    rows = list(dict.fromkeys(names))[::-1]
    figure, axes = figure_of(6.5, 0.17 * len(rows) + 1.2)
    kinds = list(dict.fromkeys((peer, f.threads) for f in found for peer in f.ratios))
    for i, (peer, threads) in enumerate(kinds):
        of = [f for f in found if f.threads == threads and peer in f.ratios]
        axes.scatter(
            [f.ratio(peer) for f in of],
            [rows.index((f.set, f.model)) for f in of],
            s=22,
            color=_COLOURS[i % len(_COLOURS)],
            marker="osD^vP"[i % 6],
            label=f"{peer}, {threads} thread{'s' * (threads > 1)}",
        )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [model for _, model in rows])
    axes.set(xlabel="time divided by the other's: below 1 clgraph is faster", xlim=(0.0, None))
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    _write(figure, path)


def _write(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
