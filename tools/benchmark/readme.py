"""The README's table of speed, from saved results: a row a set, a column a peer and number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from tools.benchmark.measuring import Figures, geometric_mean
from tools.benchmark.streams import Stream

BEGIN, END = "<!-- speed -->\n", "<!-- end of speed -->"
TITLES = {
    "cnn": "the architectures of the `onnx` package",
    "ocr": "PP-OCRv4: detection, recognition, direction",
    "mobile": "MobileNetV2, V3-small, EfficientNet-B0, YOLOv8n-like",
    "text": "BERT-base and MiniLM encoders",
    "batch": "ResNet-50 in batches of 8 and 32",
}
SENT = {
    "recognition": "PP-OCRv4 recognition: 1 to 3 lines of text, 64 to 640 pixels wide",
    "detection": "PP-OCRv4 detection: pages with sides of 256 to 768 pixels",
    "encoder": "MiniLM-like encoder: 1 to 4 sentences of 8 to 199 tokens",
}
NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def speed(saved: Sequence[dict[str, Any]]) -> str:
    """Return the paragraph and the table for what ``tools/bench --save`` has written; later files go before earlier."""
    about = [data for data in saved if data["results"]][-1]["conditions"]
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
        "Run time divided by the other runtime's on the same cores; below 1, clgraph is faster. The geometric mean "
        "over the models of a set, in brackets the minimum and maximum; the ratio of a model is the median over "
        "interleaved blocks in one process. float32, batch 1 unless stated, the same number of threads for each; "
        f"{about['cores']} cores of {about['cpu']}, {versions}, {about['date'][:10]}."
    )
    streams = {row["name"]: (Stream(**row), data["conditions"]) for data in saved for row in data.get("streams", ())}
    return f"{fill(what, 120, break_on_hyphens=False)}\n\n{table}\n\n{_streams(list(streams.values()))}"


def _streams(found: Sequence[tuple[Stream, dict[str, Any]]]) -> str:
    """Return the table of streams of requests, each behind its conditions; nothing where there are none."""
    if not found:
        return ""
    about = found[-1][1]
    rows = [
        [SENT[one.name], str(len(one.binding)), f"**{one.ratio(one.first):.2f}**", f"**{one.ratio(one.again):.2f}**"]
        for one, _ in found
    ]
    what = (
        "Streams of requests of random sizes: total time divided by ONNX Runtime's, for the first request of each "
        f"size and for the same requests repeated; {found[-1][0].threads} threads, {about['cores']} cores of "
        f"{about['cpu']}, ONNX Runtime {about['versions']['onnxruntime']}, {about['date'][:10]}."
    )
    head = ["stream", "requests", "new sizes", "repeated"]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
    return f"{fill(what, 120, break_on_hyphens=False)}\n\n{table}\n\n"


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
