"""Many cases in children with limits of time and memory: resumable, failures cut down and kept, a table at the end."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx

from clgraph.settings import settings
from tools.fuzzing.judging import LIBRARY, PEER, WRONG
from tools.fuzzing.reduction import reduced
from tools.fuzzing.seeds import Seed

ROOT = Path(__file__).resolve().parents[2]

STARTING = 900.0
"""Seconds until a child's first case, and of one that builds a kernel library, at most: with others on the machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        count: Cases, from number *first* on.
        level: How far each is taken: ``load``, ``null`` or ``run``.
        of: ``models`` that are changed, or ``graphs`` or single ``operators`` that are made.
        seconds: Of a case, after which its child is ended.
        memory: Bytes that a child may address.
        folder: Where every outcome (``outcomes.jsonl``) and the models of failures are kept; ``None`` keeps nothing.
    """

    count: int
    level: str
    device: str = "pocl"
    seed: int = 0
    first: int = 0
    seconds: float = 60.0
    memory: int = 12 << 30
    folder: Path | None = None
    of: str = "models"

    @property
    def log(self) -> Path | None:
        """The file of outcomes, one of each kind of cases, level, seed, device and instruction set asked for."""
        if self.folder is None:
            return None
        made = "" if self.of == "models" else f"{self.of}-"
        isa = settings().pocl_isa
        return self.folder / f"{made}{self.level}-{self.device}{f'-{isa}' if isa else ''}-{self.seed}.jsonl"


@dataclass
class Child:
    """A process that judges cases; ended and started anew when a case crashes it or takes too long.

    Attributes:
        begun: Whether it has come to a case; before that it starts, which takes longer than a case may.
        phase: What it said last that it does; to build a library, once on a machine, takes longer, too.
    """

    plan: Plan
    command: tuple[str, ...] = ("-m", "tools.fuzzing.worker")
    process: subprocess.Popen[bytes] | None = None
    pending: bytes = field(default=b"", init=False)
    begun: bool = field(default=False, init=False)
    phase: str = field(default="", init=False)

    def judge(self, number: int) -> dict[str, Any]:
        """Return the outcome of case *number*.

        Raises:
            RuntimeError: The child does not start.
        """
        process = self._running()
        self.phase = ""
        assert process.stdin is not None
        try:
            process.stdin.write(f"{number}\n".encode())
            process.stdin.flush()
            for message in self._messages(process):
                if "kind" in message:
                    return message
                self.begun |= "begins" in message
                self.phase = message.get("phase", self.phase)
        except BrokenPipeError:
            pass
        except TimeoutError:
            limit = self._limit
            self.end()
            return _failed(number, "hung", self.phase, f"no result after {limit:.0f} s")
        status, begun = process.wait(), self.begun
        self.end()
        if not begun:
            raise RuntimeError(f"the child ends with status {status} before any case: run {' '.join(self.command)}")
        return _failed(number, "crashed", self.phase, f"the process ended with status {status}")

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
        self.process, self.pending, self.begun = None, b"", False

    @property
    def _limit(self) -> float:
        quick = self.begun and self.phase != LIBRARY
        return self.plan.seconds if quick else max(STARTING, self.plan.seconds)

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.end()
            errors: int | IO[bytes] = subprocess.DEVNULL
            self.process = subprocess.Popen(
                [sys.executable, *self.command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
            )
            options = {k: getattr(self.plan, k) for k in ("level", "device", "seed", "memory", "of")}
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(options).encode() + b"\n")
        return self.process

    def _messages(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """Yield what the child says; raises ``TimeoutError`` where that takes too long. Ends with its output."""
        import os

        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self.pending:
                    line, _, self.pending = self.pending.partition(b"\n")
                    if line.startswith(b"{"):
                        yield json.loads(line)
                if not selector.select(self._limit):
                    raise TimeoutError
                read = os.read(process.stdout.fileno(), 1 << 16)
                if not read:
                    return
                self.pending += read


def _failed(number: int, kind: str, phase: str, detail: str) -> dict[str, Any]:
    """Return the outcome of a case whose child died, which is the peer's where it was asked last."""
    kind = f"peer {kind}" if phase == PEER else kind
    return {"number": number, "seed": "", "changes": [], "kind": kind, "detail": detail}


def run_campaign(plan: Plan, show: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
    """Return the outcomes of all cases, those of earlier calls with the same folder included.

    Args:
        show: Called with each new outcome.
    """
    outcomes = earlier(plan)
    done = {o["number"] for o in outcomes}
    child = Child(plan)
    log = None
    if plan.log is not None:
        plan.log.parent.mkdir(parents=True, exist_ok=True)
        log = plan.log.open("a", encoding="utf-8")
    try:
        for number in range(plan.first, plan.first + plan.count):
            if number in done:
                continue
            outcome = child.judge(number)
            if outcome["kind"] in WRONG and plan.folder is not None and plan.level != "files":
                keep(plan, outcome)
            outcomes.append(outcome)
            if log is not None:
                log.write(json.dumps(outcome) + "\n")
                log.flush()
            show(outcome)
    finally:
        child.end()
        if log is not None:
            log.close()
    return outcomes


def keep(plan: Plan, outcome: dict[str, Any]) -> Path:
    """Write the model of a failure, without what it does not need; return its path."""
    from tools.fuzzing.judging import judge
    from tools.fuzzing.worker import MADE, case, made_case

    number, kind = outcome["number"], outcome["kind"]
    seed, data, names = made_case(number, plan.seed, plan.of) if plan.of in MADE else case(number, plan.seed)
    if kind not in ("crashed", "hung"):
        if plan.of in MADE:
            data, outcome["reduced"] = _smaller_graph(plan, seed, kind)
        else:
            needed = frozenset(range(len(names)))
            for i in sorted(needed):
                smaller = case(number, plan.seed, needed - {i})[1]
                if len(needed) > 1 and judge(smaller, seed.feeds, plan.level, plan.device).kind == kind:
                    needed, data = needed - {i}, smaller
    assert plan.folder is not None
    made = f"{plan.of}-" if plan.of in MADE else ""
    path = plan.folder / "failures" / f"{kind.replace(' ', '_')}-{made}{plan.level}-{plan.seed}-{number}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_suffix(".json").write_text(json.dumps({**outcome, "seed": seed.name, "changes": names}, indent=1))
    return path


def _smaller_graph(plan: Plan, seed: Seed, kind: str) -> tuple[bytes, str]:
    """Return the part of a graph with which the outcome is still of *kind*, and what that says."""
    from tools.fuzzing.judging import judge

    said = ""

    def fails(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> bool:
        nonlocal said
        outcome = judge(
            model.SerializeToString(),
            feeds,
            plan.level,
            plan.device,
            valid=True,
            single=plan.of in ("operators", "variants"),
        )
        if outcome.kind == kind:
            said = outcome.detail
        return outcome.kind == kind

    with np.errstate(all="ignore"):
        return reduced(seed.model, seed.feeds, fails)[0].SerializeToString(), said


COUNTED = {
    "differ": ("differs", "reference differs", "damaged"),
    "foreign": ("raised", "internal error", "several lines"),
    "crash": ("crashed",),
    "hang": ("hung",),
    "refused": ("refused", "only clgraph refuses"),
}
"""What outcomes come to; all others are fine."""


def counts(outcomes: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many cases differ, raise something foreign, crash, hang, are refused and are fine."""
    kinds = Counter(o["kind"] for o in outcomes)
    found = {what: sum(kinds[kind] for kind in listed) for what, listed in COUNTED.items()}
    return {**found, "fine": kinds.total() - sum(found.values())}


def table(outcomes: Iterable[dict[str, Any]]) -> str:
    """Return how many cases had which outcome, the errors by class, as Markdown."""
    found = list(outcomes)
    kinds = Counter(o["kind"] + (f": {o['detail']}" if o["kind"] == "refused" else "") for o in found)
    rows = [f"| {kind} | {count} | {100 * count / len(found):.1f} |" for kind, count in sorted(kinds.items())]
    whole = f"| all | {len(found)} | 100 |"
    came_to = ", ".join(f"{count} {what}" for what, count in counts(found).items())
    fixed = sum(o.get("inputs") == 0 for o in found)
    return "\n".join(
        ["| outcome | cases | % |", "|---|---|---|", *rows, whole, "", f"{came_to}; {fixed} without inputs."]
    )


def earlier(plan: Plan) -> list[dict[str, Any]]:
    """Return the outcomes of earlier calls with the same folder."""
    if plan.log is None or not plan.log.exists():
        return []
    found = []
    for line in plan.log.read_text(encoding="utf-8").splitlines():
        try:
            outcome = json.loads(line)
        except ValueError:  # cut off when an earlier call was ended
            continue
        if plan.first <= outcome["number"] < plan.first + plan.count:
            found.append(outcome)
    return found
