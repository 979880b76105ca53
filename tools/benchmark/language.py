"""Measuring language models: prompts, the tokens behind them, memory, and the share of the memory's bandwidth."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clgraph.errors import ClgraphError
from tools.benchmark.bandwidth import read_bandwidth
from tools.benchmark.language_models import LANGUAGE, bytes_of_a_token, folder_of, weight_bytes
from tools.benchmark.language_peers import LANGUAGE_RUNTIMES, Continue, peers_of
from tools.benchmark.measuring import Schedule
from tools.benchmark.peers import Options

PROMPTS = (128, 512)
TOKENS = 16
"""Of each block, behind the shorter prompt."""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class LanguageFigures:
    """What was measured of one language model; by runtime, seconds a round.

    Attributes:
        weights: Bytes of the model's files.
        read: Bytes of weights that a token reads at least.
        bandwidth: Bytes a second that the device reads from its memory; a CPU by as many threads.
        token: The median of each round's tokens.
        prompts: By the prompt's length, the time to the first token.
        equal: How many of the tokens are clgraph's, of ``TOKENS``, before the first that is not.
        memory: MiB that a process of its own takes more at most than before it opens the model, whose files the system
            has not got in memory.
    """

    name: str
    threads: int
    parameters: int
    weights: int
    read: int
    bandwidth: float
    token: dict[str, list[float]]
    prompts: dict[str, dict[str, list[float]]]
    equal: dict[str, int]
    memory: dict[str, float]
    load: float


def measure_language(name: str, options: Options, schedule: Schedule, *, alone: bool = False) -> LanguageFigures:
    """Let clgraph and its peers continue the same prompts in turn; *alone*, without them.

    Raises:
        ClgraphError: A runtime cannot open the model.
    """
    d, folder = LANGUAGE[name], folder_of(name)
    names = ["clgraph", *([] if alone else peers_of(d))]
    memory = {runtime: _memory(runtime, name, options) for runtime in names}
    runtimes = {runtime: LANGUAGE_RUNTIMES[runtime](folder, d, options) for runtime in names}
    random = np.random.default_rng(1)
    prompts = [random.integers(3, d.vocabulary, length).tolist() for length in PROMPTS]
    made = {runtime: _rounded(run, prompts)[2] for runtime, run in runtimes.items()}
    token: dict[str, list[float]] = {runtime: [] for runtime in names}
    first: dict[str, dict[str, list[float]]] = {str(n): {runtime: [] for runtime in names} for n in PROMPTS}
    bandwidth = 0.0
    for number in range(schedule.rounds):
        bandwidth = max(bandwidth, read_bandwidth(options.device, options.threads))
        for runtime in names if number % 2 == 0 else names[::-1]:
            time.sleep(schedule.pause)
            starts, seconds, _ = _rounded(runtimes[runtime], prompts)
            token[runtime].append(seconds)
            for length, taken in zip(PROMPTS, starts, strict=True):
                first[str(length)][runtime].append(taken)
    return LanguageFigures(
        name=name,
        threads=options.threads,
        parameters=d.parameters,
        weights=weight_bytes(folder),
        read=bytes_of_a_token(d, folder),
        bandwidth=bandwidth,
        token=token,
        prompts=first,
        equal={r: _alike(made["clgraph"], made[r]) for r in names[1:]},
        memory=memory,
        load=os.getloadavg()[0],
    )


def _rounded(run: Continue, prompts: Sequence[Sequence[int]]) -> tuple[list[float], float, list[int]]:
    """Return the seconds of each prompt, the median of ``TOKENS`` behind the first, and these tokens."""
    starts, times, made = [], list[float](), list[int]()
    for prompt in prompts:
        tokens = run(prompt)
        start = time.perf_counter()
        made += [next(tokens)] if not starts else []
        if starts:
            next(tokens)
        starts.append(time.perf_counter() - start)
        while len(times) < TOKENS:
            start = time.perf_counter()
            made.append(next(tokens))
            times.append(time.perf_counter() - start)
    return starts, statistics.median(times), made


def _alike(ours: Sequence[int], theirs: Sequence[int]) -> int:
    pairs = list(zip(ours, theirs, strict=True))[:TOKENS]
    return next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))


def _memory(runtime: str, name: str, options: Options) -> float:
    """Return the MiB that *runtime* takes in a process of its own."""
    _leave_memory(folder_of(name))
    given = json.dumps([runtime, name, options.device, options.threads])
    command = [sys.executable, "-m", "tools.benchmark.language", given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_ROOT)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ClgraphError(f"{runtime} does not run {name}: {lines[-1] if lines else f'status {done.returncode}'}")
    return float(done.stdout.splitlines()[-1])


def _leave_memory(folder: Path) -> None:
    """Let the system forget the content of the model's files, which a process that maps them would be given more of.

    What was written a while ago lies in large pages: for a row of embeddings a process is given 2 MiB of them.
    """
    for path in sorted(folder.glob("model.onnx*")) if hasattr(os, "posix_fadvise") else ():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _take_memory(runtime: str, name: str, device: str, threads: int) -> None:
    """Print the MiB that this process takes for a prompt and some tokens, beyond what it took before."""
    folder, before = folder_of(name), _peak()
    tokens = LANGUAGE_RUNTIMES[runtime](folder, LANGUAGE[name], Options(device, threads))(list(range(3, 131)))
    for _ in range(4):
        next(tokens)
    print(_peak() - before)


def _peak() -> float:
    """Return the most MiB that were in memory so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def language_markdown(found: Sequence[LanguageFigures]) -> str:
    """Return a table of speed, and one of memory."""
    return "\n".join([*_speed(found), "", *_sizes(found)])


def _speed(found: Sequence[LanguageFigures]) -> Iterator[str]:
    heads = " | ".join(f"{n} tokens ms" for n in PROMPTS)
    yield f"| model, threads | runtime | ms a token | tokens/s | of its time | {heads} | of its time | same tokens |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for f in found:
        for runtime, times in f.token.items():
            mine = runtime == "clgraph"
            median = statistics.median(times)
            starts = [statistics.median(f.prompts[str(n)][runtime]) for n in PROMPTS]
            of_starts = " / ".join(_ratio(f.prompts[str(n)], runtime) for n in PROMPTS)
            yield (
                f"| {f'{f.name}, {f.threads}' if mine else ''} | {runtime} | {median * 1e3:.2f} | {1 / median:.1f} | "
                f"{'' if mine else _ratio(f.token, runtime)} | {' | '.join(f'{s * 1e3:.1f}' for s in starts)} | "
                f"{'' if mine else of_starts} | {'' if mine else f'{f.equal[runtime]} of {TOKENS}'} |"
            )


def _ratio(times: dict[str, list[float]], peer: str) -> str:
    """Return clgraph's time over the peer's, the median of the rounds'."""
    return f"{statistics.median(a / b for a, b in zip(times['clgraph'], times[peer], strict=True)):.2f}"


def _sizes(found: Sequence[LanguageFigures]) -> Iterator[str]:
    yield "| model, threads | parameters | files MiB | GB/s of weights a token, best | of what is read | MiB taken |"
    yield "|---|---|---|---|---|---|"
    for f in found:
        rates = {runtime: f.read / min(times) for runtime, times in f.token.items()}
        yield (
            f"| {f.name}, {f.threads} | {f.parameters / 1e6:.0f} M | {f.weights / 2**20:.0f} | "
            f"{', '.join(f'{runtime} {rate / 1e9:.1f}' for runtime, rate in rates.items())} | "
            f"{rates['clgraph'] / f.bandwidth:.0%} of {f.bandwidth / 1e9:.1f} GB/s | "
            f"{', '.join(f'{runtime} {size:.0f}' for runtime, size in f.memory.items())} |"
        )


if __name__ == "__main__":
    _take_memory(*json.loads(sys.argv[1]))
