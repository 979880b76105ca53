"""What quantising a model has cost, layer by layer, as tables."""

from __future__ import annotations

from clgraph.cli.output import say, table
from clgraph.debugging.quantisation_noise import LayerNoise, ModelNoise


def show_noise(found: ModelNoise, top: int) -> None:
    """Print the *top* layers that add most, all in order of execution for 0, and the outputs."""
    layers = sorted(found.layers, key=lambda layer: -layer.own.rms)[:top] if top else found.layers
    table(("layer", "kind", "snr", "adds", "rounding", "beyond"), map(_row, layers), spare=("kind",))
    say()
    table(
        ("output", "snr", "device", "references"),
        [(o.name, _decibels(o.snr), _share(o.device.rms), _share(o.references.rms)) for o in found.outputs],
    )
    say()
    say(found.verdict())


def _row(layer: LayerNoise) -> tuple[str, ...]:
    figures = (layer.own.rms, layer.rounding, layer.beyond)
    return layer.layer, layer.kind, _decibels(layer.snr), *map(_share, figures)


def _decibels(ratio: float) -> str:
    return f"{ratio:.1f}"


def _share(part: float) -> str:
    """Return a share in per cent, with two digits that count."""
    return "0%" if not part else f"{part:.2%}" if part < 0.1 else f"{part:.1%}"
