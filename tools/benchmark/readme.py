"""The README's table of speed, from saved results: a row a set, a column a peer and number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.benchmark.measuring import Figures, geometric_mean

BEGIN, END = "<!-- speed -->\n", "<!-- end of speed -->"
TITLES = {
    "cnn": "the architectures of the `onnx` package",
    "ocr": "PP-OCRv4: detection, recognition, direction",
    "mobile": "MobileNetV2, V3-small, EfficientNet-B0, YOLOv8n-like",
    "text": "BERT-base and MiniLM encoders",
    "batch": "ResNet-50 in batches of 8 and 32",
}
NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def speed(saved: Sequence[dict[str, Any]]) -> str:
    """Return the paragraph and the table for what ``tools/bench --save`` has written; later files go before earlier."""
    about = saved[-1]["conditions"]
    found: dict[tuple[str, int, str], dict[str, float]] = {}
    for data in saved:
        for figures in (Figures(**row) for row in data["results"]):
            for peer in figures.ratios:
                found.setdefault((figures.set, figures.threads, peer), {})[figures.model] = figures.ratio(peer)
    columns = sorted({(peer, threads) for _, threads, peer in found})
    versions = ", ".join(
        f"{name} {about['versions'][package]}"
        for package, name in {"pocl-binary-distribution": "PoCL", **NAMES}.items()
        if package in about["versions"]
    )
    head = ["set", *(f"{NAMES[peer]}, {threads} thread{'s' * (threads > 1)}" for peer, threads in columns)]
    rows = [
        [title, *(_cell(found.get((name, threads, peer), {})) for peer, threads in columns)]
        for name, title in TITLES.items()
        if any(key[0] == name for key in found)
    ]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    what = (
        "Time of one run divided by the peer's, on the same cores: below 1 clgraph is faster. Geometric mean of a "
        "set's models, then the least\nand the most; of each model the median ratio of blocks that were measured in "
        "turn in one process. float32, batch 1 where nothing else is\nsaid, as many threads for everybody; "
        f"{about['cores']} cores of {about['cpu']}, {versions}, {about['date'][:10]}."
    )
    return f"{what}\n\n{table}\n\n"


def replaced(page: str, text: str) -> str:
    """Return *page* with *text* between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page does not have the marks {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{text}{end}{after}"


def _cell(ratios: dict[str, float]) -> str:
    if not ratios:
        return ""
    values = sorted(ratios.values())
    return f"**{geometric_mean(values):.2f}** ({values[0]:.2f} to {values[-1]:.2f})"
