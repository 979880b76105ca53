"""All tables of ``tools/bench``, a step at a time: each in a process of its own, and kept as soon as it is measured."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clgraph.cli.output import say
from clgraph.cli.progress import working
from clgraph.errors import ClgraphError
from tools.benchmark.found import Found
from tools.benchmark.measuring import Figures
from tools.benchmark.on_gpu import Case
from tools.benchmark.streams import STREAMS
from tools.benchmark.variants import Variant

_BENCH = Path(__file__).resolve().parents[1] / "bench"
_CHANGES = ("date", "load")
"""Conditions that an interrupted run need not share with the one that goes on."""
_GPU_SECONDS = 400.0
"""Of a case on a GPU, torch's compiler included: a kernel that never ends must not take the others' time."""


@dataclass(frozen=True)
class Step:
    """One run of ``tools/bench``.

    Attributes:
        kind: Steps of a kind take about as long as each other.
        set: The models' set that its figures belong to.
        limit: Seconds that it may take; none for no limit.
    """

    name: str
    kind: str
    arguments: tuple[str, ...]
    set: str = ""
    variant: Variant | None = None
    limit: float | None = None


def steps(
    cases: Sequence[tuple[str, str]],
    threads: Sequence[int],
    cold: Sequence[str],
    layers: Sequence[str],
    language: Sequence[str],
    variants: Sequence[Variant],
) -> Iterator[Step]:
    """Yield what there is to measure.

    Args:
        cases: Models, each behind its set: with every number of *threads*, on *variants* with the most alone.
        cold, layers, language: Models of the cold starts, and of the layer tables; language models.
    """
    most = max(threads)
    for name, model in cases:
        for count in threads:
            yield Step(f"{name} {model}, {_threads(count)}", name, (model, "--threads", str(count)), name)
    for model in cold:
        yield Step(f"cold starts of {model}", "cold", ("--cold", model, "--threads", str(most)))
    for name in STREAMS:
        yield Step(f"stream of shapes, {name}", "streams", ("--streams-of-shapes", name, "--threads", str(most)))
    yield Step("throughput", "throughput", ("--set", "throughput", "--threads", str(most)))
    for model in language:
        for count in threads:
            yield Step(f"language model {model}, {_threads(count)}", "language", (model, "--threads", str(count)))
    for model in layers:
        yield Step(f"layers of {model}", "layers", ("--layers", model, "--threads", str(most)))
    for variant in variants:
        for name, model in cases:
            title = f"{name} {model}, {_threads(most)}, {variant.title}"
            given = (model, "--threads", str(most), "--against", "onnxruntime", *variant.arguments)
            yield Step(title, name, given, name, variant)


def gpu_steps(cases: Sequence[Case], options: Sequence[str]) -> list[Step]:
    """Return what there is to measure on a GPU: a step for each case, so that none takes others with it."""
    return [
        Step(f"on a GPU: {c.title}", "gpu", ("--gpu", "--only", c.title, *options), limit=_GPU_SECONDS) for c in cases
    ]


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


@dataclass
class Journal:
    """What the steps of an unfinished run have measured: a line of JSON each, behind one with the conditions.

    Attributes:
        arguments: Those that all steps share.
        found: What was measured, by the step's name; ``seconds``: how long each took, behind its kind.
    """

    path: Path
    about: dict[str, Any]
    arguments: list[str]
    found: dict[str, Found] = field(default_factory=dict)
    seconds: list[tuple[str, float]] = field(default_factory=list)

    @staticmethod
    def of(path: Path, about: dict[str, Any], arguments: Sequence[str], *, again: bool = False) -> Journal:
        """Return the journal at *path* where it is of the same conditions and arguments, else a new one.

        Args:
            again: Begin anew in any case.
        """
        journal = Journal(path, about, list(arguments))
        if path.is_file() and not again:
            try:
                first, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
                same = _lasting(first["about"]) == _lasting(about) and first["arguments"] == journal.arguments
                if same:
                    journal.about = first["about"]
                    for line in lines:
                        journal.found[line["step"]] = Found.from_data(line["found"])
                        journal.seconds.append((line["kind"], line["seconds"]))
                    return journal
            except (ValueError, KeyError, TypeError) as error:
                raise ClgraphError(f"{path} is damaged ({error}): remove it, or give --again") from error
            say(f"begun anew: {path} was measured with other options, versions or another device")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"about": about, "arguments": journal.arguments}) + "\n", encoding="utf-8")
        return journal

    def add(self, step: Step, found: Found, seconds: float) -> None:
        """Keep what *step* has measured."""
        self.found[step.name] = found
        self.seconds.append((step.kind, seconds))
        line = {"step": step.name, "kind": step.kind, "seconds": seconds, "found": found.to_data()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def left(self, todo: Sequence[Step]) -> float:
        """Return the seconds that *todo* is likely to take: what steps of the same kind took, or any."""
        kinds: dict[str, list[float]] = {}
        for kind, seconds in self.seconds:
            kinds.setdefault(kind, []).append(seconds)
        usual = [seconds for _, seconds in self.seconds] or [0.0]
        return sum(statistics.fmean(kinds.get(step.kind, usual)) for step in todo)


def _lasting(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in json.loads(json.dumps(about)).items() if name not in _CHANGES}


def run_steps(todo: Sequence[Step], common: Sequence[str], journal: Journal) -> tuple[Found, list[str]]:
    """Run those of *todo* that are not in the journal; return everything found, and the steps that failed."""
    missing = [step for step in todo if step.name not in journal.found]
    if len(missing) < len(todo):
        say(f"{len(todo) - len(missing)} of {len(todo)} steps are in {journal.path}")
    failed = []
    begun = time.monotonic()
    for i, step in enumerate(missing):
        number = f"[{len(todo) - len(missing) + i + 1}/{len(todo)}]"
        start = time.monotonic()
        try:
            with working(f"{number} {step.name}"):
                found = _run(step, common)
            journal.add(step, found, time.monotonic() - start)
            text = _told(found.results + [f for fs in found.variants.values() for f in fs])
        except ClgraphError as error:
            failed.append(step.name)
            text = f"failed: {error}"
        left = journal.left(missing[i + 1 :])
        say(f"{number} {step.name}{': ' * bool(text)}{text}  ({_clock(time.monotonic() - begun)}, left {_clock(left)})")
    whole = Found()
    for step in todo:
        if step.name in journal.found:
            whole.add(journal.found[step.name])
    return whole, failed


def _run(step: Step, common: Sequence[str]) -> Found:
    """Return what a process of its own measures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found.json")
        command = [sys.executable, str(_BENCH), *common, *step.arguments, "--json", str(path)]
        variables = os.environ | dict(step.variant.environment if step.variant else ())
        try:
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True, check=False, timeout=step.limit
            )
        except subprocess.TimeoutExpired as error:
            raise ClgraphError(f"no end in {error.timeout:.0f} s") from error
        if done.returncode or not path.is_file():
            lines = done.stderr.strip().splitlines()
            raise ClgraphError(f"status {done.returncode}, {lines[-1] if lines else 'without a message'}")
        found = Found.from_data(json.loads(path.read_text(encoding="utf-8")))
    results = [replace(f, set=step.set) for f in found.results]
    return Found(variants={step.variant.name: results}) if step.variant else replace(found, results=results)


def _told(found: Sequence[Figures]) -> str:
    return ", ".join(f"{f.ratio(peer):.2f} of {peer}'s" for f in found for peer in f.ratios)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
