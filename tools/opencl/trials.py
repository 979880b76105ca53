"""Trying clgraph inside an implementation: canary, demo and some tests, each in a process with a time limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.opencl.implementations import IMPLEMENTATIONS, ROOT, TESTS, Implementation, Installed

PROBE_SECONDS, DEMO_SECONDS, TEST_SECONDS = 300, 300, 120
TEXT = "OpenCL 2026"


@dataclass(frozen=True)
class Row:
    """What came out on one implementation; each cell is one short text."""

    title: str
    version: str = ""
    canary: str = ""
    demo: str = ""
    tests: str = ""
    auto: str = ""


@dataclass(frozen=True)
class Ended:
    """How a process ended: its status, ``None`` where it took too long, and what it printed."""

    status: int | None
    output: str
    errors: str
    seconds: float

    @property
    def why(self) -> str:
        """What went wrong, in one line."""
        if self.status is None:
            return f"did not end in {self.seconds:.0f} s"
        if self.status < 0:
            return f"died ({signal.Signals(-self.status).name})"
        if self.status > 128:
            return f"died ({signal.Signals(self.status - 128).name})"
        lines = [line.strip() for line in (*self.output.splitlines(), *self.errors.splitlines()) if line.strip()]
        told = [line for line in lines if line.startswith("error:")] or lines[-1:] or [f"status {self.status}"]
        return told[0].removeprefix("error: ").rstrip(":")


def run(made: Installed, command: Sequence[str], seconds: float, **variables: str) -> Ended:
    """Run *command* inside *made* from the root of the repository, and end it and its children after *seconds*."""
    start = time.perf_counter()
    with subprocess.Popen(
        made.inside(command),
        cwd=ROOT,
        env={**made.variables, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        status: int | None
        try:
            output, errors = process.communicate(timeout=seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            status = None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # ^C does not reach a session of its own
            raise
    return Ended(status, output, errors, time.perf_counter() - start)


def present(cache: Path) -> list[Installed]:
    """Return the implementations of the devices that the machine has, without any that is installed for the trial."""
    bare = Installed(Implementation("machine", "this machine", ""))
    probed = run(bare, [sys.executable, "-m", "tools.opencl.probe"], PROBE_SECONDS, CLGRAPH_CACHE_DIR=str(cache))
    if probed.status != 0:
        return [bare]
    found = json.loads(probed.output.splitlines()[-1])["devices"]
    known = [next((i for i in IMPLEMENTATIONS if i.driver in d["driver"]), None) for d in found]
    strangers = [Implementation(d["name"], d["driver"], d["driver"], tests=TESTS) for d in found]
    return [Installed(i or stranger) for i, stranger in zip(known, strangers, strict=True)]


def try_one(made: Installed, cache: Path) -> Row:
    """Return the row of an implementation."""
    this = made.implementation
    variables = {"CLGRAPH_CACHE_DIR": str(cache)}
    probed = run(made, [sys.executable, "-m", "tools.opencl.probe"], PROBE_SECONDS, **variables)
    if probed.status != 0:
        return Row(this.title, canary=probed.why)
    found = json.loads(probed.output.splitlines()[-1])
    device = next((d for d in found["devices"] if this.driver in d["driver"]), None)
    if device is None:
        return Row(this.title, canary="the driver is there, but lists no device", auto=found["auto"])
    canary = device["refusal"] or _rate(device)
    auto = _taken(found, device)
    if device["refusal"]:
        return Row(this.title, device["version"], canary, auto=auto)
    demo = _demo(made, device["name"], variables)
    return Row(this.title, device["version"], canary, demo, _tests(made, device["name"], variables), auto)


def _taken(found: dict[str, Any], device: dict[str, Any]) -> str:
    other = next((d for d in found["devices"] if d["name"] == found["auto"]), None)
    if other is None:
        return "takes none"
    return "takes it" if other is device else f"takes {other['title']} {other['version']}"


def _rate(device: dict[str, Any]) -> str:
    rate = device["gflops"]
    return f"right ({device['record']})" + (f", {rate:.3g} GFLOP/s a worker" if rate is not None else "")


def _demo(made: Installed, device: str, variables: dict[str, str]) -> str:
    on = ["--device", device, "--device-class", made.implementation.device_class]
    command = [sys.executable, "-m", "clgraph", "demo", "ocr", "--text", TEXT, "--runs", "1", "--json", *on]
    ended = run(made, command, DEMO_SECONDS, **variables)
    if ended.status != 0:
        return ended.why
    read = " ".join(re.findall(r'"text": "([^"]*)"', ended.output))
    return f"right, {ended.seconds:.0f} s" if read == TEXT else f"read {read!r}"


def _tests(made: Installed, device: str, variables: dict[str, str]) -> str:
    this: Implementation = made.implementation
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "opencl and not slow", *this.tests]
    ended = run(made, command, TEST_SECONDS, CLGRAPH_TEST_DEVICES=device, **variables)
    if ended.status is None:
        marks = "".join(re.findall(r"(?m)^[.FEsx]+", ended.output))
        wrong = marks.count("F") + marks.count("E")
        return f"{marks.count('.')} passed, {wrong} failed when {TEST_SECONDS} s were over"
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", ended.output)
    return ", ".join(counts) or ended.why
