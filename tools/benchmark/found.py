"""What ``tools/bench`` has measured, of each kind, as data and as Markdown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tools.benchmark.drawing import drawn_markdown
from tools.benchmark.fresh import Start, starts_markdown
from tools.benchmark.kept_shapes import KeptShapes, kept_shapes_markdown
from tools.benchmark.language import LanguageFigures, language_markdown
from tools.benchmark.measuring import Figures
from tools.benchmark.on_gpu import Case, Timed, gpu_markdown
from tools.benchmark.scaling import ScalingFigures, scaling_markdown
from tools.benchmark.streams import Stream, streams_markdown
from tools.benchmark.throughput import ThroughputFigures, throughput_markdown
from tools.benchmark.variants import variants_markdown


@dataclass
class Found:
    """Measurements by kind.

    Attributes:
        results: Of models, beside the peers.
        drawn: Of operators drawn by chance.
        variants: Of models on other instruction sets and drivers, by the variant's name.
        layers: Tables of layers, as Markdown.
    """

    results: list[Figures] = field(default_factory=list)
    drawn: list[Figures] = field(default_factory=list)
    gpu: list[Timed] = field(default_factory=list)
    cold_starts: list[Start] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    kept_shapes: list[KeptShapes] = field(default_factory=list)
    language: list[LanguageFigures] = field(default_factory=list)
    throughput: list[ThroughputFigures] = field(default_factory=list)
    scaling: list[ScalingFigures] = field(default_factory=list)
    layers: list[str] = field(default_factory=list)
    variants: dict[str, list[Figures]] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Append what *other* holds."""
        for one in fields(self):
            if one.name != "variants":
                getattr(self, one.name).extend(getattr(other, one.name))
        for name, figures in other.variants.items():
            self.variants.setdefault(name, []).extend(figures)

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON has it, without what is empty."""
        return {name: value for name, value in asdict(self).items() if value or name == "results"}

    @staticmethod
    def from_data(data: dict[str, Any]) -> Found:
        """Return what :meth:`to_data` has written."""
        return Found(
            results=[Figures(**one) for one in data["results"]],
            drawn=[Figures(**one) for one in data.get("drawn", ())],
            gpu=[Timed(**one | {"case": Case(**one["case"])}) for one in data.get("gpu", ())],
            cold_starts=[Start(**one) for one in data.get("cold_starts", ())],
            streams=[Stream(**one) for one in data.get("streams", ())],
            kept_shapes=[KeptShapes(**one) for one in data.get("kept_shapes", ())],
            language=[LanguageFigures(**one) for one in data.get("language", ())],
            throughput=[ThroughputFigures(**one) for one in data.get("throughput", ())],
            scaling=[ScalingFigures(**one) for one in data.get("scaling", ())],
            layers=list(data.get("layers", ())),
            variants={name: [Figures(**one) for one in of] for name, of in data.get("variants", {}).items()},
        )

    def sections(self) -> list[str]:
        """Return tables with titles, of all but the results."""
        texts = {
            "Operators drawn by chance": drawn_markdown(self.drawn) if self.drawn else "",
            "On a GPU": gpu_markdown(self.gpu) if self.gpu else "",
            "Cold starts": starts_markdown(self.cold_starts) if self.cold_starts else "",
            "Streams of shapes": streams_markdown(self.streams) if self.streams else "",
            "Thousands of shapes": kept_shapes_markdown(self.kept_shapes) if self.kept_shapes else "",
            "Language models": language_markdown(self.language) if self.language else "",
            "Throughput": throughput_markdown(self.throughput) if self.throughput else "",
            "Workers of Ray": scaling_markdown(self.scaling) if self.scaling else "",
            "Instruction sets and drivers": variants_markdown(self.results, self.variants) if self.variants else "",
            "Layers": "\n\n".join(self.layers),
        }
        return [f"## {title}\n\n{text}" for title, text in texts.items() if text]
