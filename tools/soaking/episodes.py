"""What is done with models, each a minute of a user's program: run, cloned, saved, streamed, ended in the middle."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import clgraph
from clgraph.errors import ClgraphError, InputError, InternalError, RunCancelledError, RunTimeoutError
from clgraph.generate import Options
from tests.support.decoder_folder import write_decoder_folder
from tools.soaking.faults import Faults
from tools.soaking.specimens import DECODER, PROMPT, TOKENS, Specimen, text, text_model

OPTIONS: Sequence[dict[str, Any]] = (
    {},
    {"threads": 1},
    {"config": {"model_cache": 0}},
    {"config": {"device_class": "gpu"}},
    {"config": {"executor": "stream"}, "threads": 2},
    {"precision": "f32", "config": {"out_of_order": True}},
)

PATIENCE = 300.0
"""Seconds in which who uses a model of the pool is done with it, kernels that are compiled included."""


class WrongError(Exception):
    """A result is not what it must be, or an error is none of clgraph's for what was done."""


@dataclass
class Soak:
    """What the threads share.

    Attributes:
        shared: Models that live as long as all, one a specimen, and one of the decoder.
        pool: The specimens' models, of which those that take most fit at once, one a thread.
        language: The decoder in its folder.
        done: How often each episode was.
        errors: How often each class of errors came, as it should.
        wrong: What should not have been.
    """

    specimens: Sequence[Specimen]
    faults: Faults
    folder: Path
    shared: dict[str, Any] = field(default_factory=dict)
    pool: clgraph.Pool = field(default_factory=clgraph.Pool)
    language: Any = None
    done: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    runs: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self) -> None:
        """Compile the shared models."""
        for s in self.specimens:
            self.shared[s.name] = s.compiled()
        self.shared["text"] = clgraph.compile(text_model())
        text()
        self.language = clgraph.generate.load(write_decoder_folder(self.folder / "decoder", DECODER))

    def warm(self) -> None:
        """Run what there is once, so that kernels are there before anything is counted."""
        for s in self.specimens:
            for options in OPTIONS:
                with s.compiled(**options) as model:
                    for number, feeds in enumerate(s.requests):
                        self.check("warm", s, number, model.run(feeds))
            for number, feeds in enumerate(s.requests):
                self.check("warm", s, number, self.shared[s.name].run(feeds))

    def fill(self, threads: int) -> None:
        """Make the pool: a model is used by each of *threads* at once, and no other."""
        taken = []
        for s in self.specimens:
            budget = clgraph.MemoryBudget(0)
            with s.compiled(memory_limit=budget) as model:
                for feeds in s.requests:
                    model.run(feeds)
                taken.append(max(budget.taken.values(), default=0))
        self.pool = clgraph.Pool(sum(sorted(taken)[-threads:]), patience=PATIENCE)
        for s in self.specimens:
            self.pool.add_made(s.name, lambda budget, s=s: s.compiled(memory_limit=budget))

    def close(self) -> None:
        """Close them."""
        self.pool.close()
        for model in self.shared.values():
            model.close()
        self.shared.clear()

    def tried(self, what: str, work: Callable[[], Any], *more: type[ClgraphError]) -> Any:
        """Return what *work* does; ``None`` where it raised what may come of a fault, or one of *more*.

        Raises:
            WrongError: It raised anything else.
        """
        begun = time.monotonic()
        try:
            return work()
        except ClgraphError as error:
            expected = (*self.faults.expected(begun), *more)
            told = f"{what}: {type(error).__name__}: {error}"
            if isinstance(error, InternalError) or not isinstance(error, expected) or not str(error):
                raise WrongError(told) from error
            with self.lock:
                self.errors[type(error).__name__] += 1
            return None
        except WrongError:
            raise
        except Exception as error:  # whatever it is, clgraph let it out
            raise WrongError(f"{what}: {type(error).__name__}: {error}, which is no error of clgraph") from error

    def check(self, what: str, specimen: Specimen, number: int, results: Any) -> None:
        """Count a run; raise ``WrongError`` where its *results* are wrong; ``None`` is none."""
        if results is None:
            return
        with self.lock:
            self.runs += 1
        if why := specimen.wrong(number, results):
            raise WrongError(f"{what} of {specimen.name}, request {number}: {why}")


def run_shared(soak: Soak, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 12)):
        s, number = _drawn(soak, rng)
        model, feeds = soak.shared[s.name], s.requests[number]
        way = rng.randrange(4)
        if way == 0 and hasattr(model, "run_async"):
            what, work = "run_async", lambda m=model, f=feeds: m.run_async(f).result(120)
        elif way == 1 and isinstance(model, clgraph.Model):
            what, work = "tensors", lambda m=model, f=feeds: _arrays(m.run(f, tensors=True))
        elif way == 2:
            held = {name: np.empty_like(a) for name, a in s.wanted[number].items()}
            what, work = "outputs", lambda m=model, f=feeds, h=held: m.run(f, h)
        else:
            what, work = "run", lambda m=model, f=feeds: m.run(f)
        soak.check(what, s, number, soak.tried(what, work))


def clones(soak: Soak, rng: random.Random) -> None:
    s, _ = _drawn(soak, rng, fixed=True)
    made = [soak.tried("clone", soak.shared[s.name].clone) for _ in range(rng.randrange(1, 4))]
    found = [clone for clone in made if clone is not None]
    for clone in found * 2:
        number = rng.randrange(len(s.requests))
        soak.check("clone", s, number, soak.tried("a clone's run", lambda c=clone, n=number: c.run(s.requests[n])))
    for clone in found:
        if rng.random() < 0.7:  # others are dropped
            soak.tried("close", clone.close)


def compiled(soak: Soak, rng: random.Random) -> None:
    s, number = _drawn(soak, rng)
    options = rng.choice(OPTIONS)
    model = soak.tried("compile", lambda: s.compiled(**options))
    if model is None:
        return
    for n in {number, rng.randrange(len(s.requests))}:
        soak.check(f"compile {options}", s, n, soak.tried("run", lambda n=n: model.run(s.requests[n])))
    soak.tried("close", model.close)


def saved(soak: Soak, rng: random.Random) -> None:
    s, number = _drawn(soak, rng)
    path = soak.folder / f"{s.name}-{threading.get_ident()}.clg"
    soak.tried("save", lambda: soak.shared[s.name].save(path))
    if path.exists():
        model = soak.tried("load", lambda: clgraph.load(path))
        if rng.random() < 0.5:
            path.unlink()  # of a model that is in use
        if model is not None:
            soak.check("load", s, number, soak.tried("run", lambda: model.run(s.requests[number])))
            soak.tried("close", model.close)
    path.unlink(missing_ok=True)


def streams(soak: Soak, rng: random.Random) -> None:
    s, _ = _drawn(soak, rng)
    joined = clgraph.Batching(maximum=4, wait_ms=1) if s.joins and rng.random() < 0.7 else None
    options: dict[str, Any] = {"hint": "throughput", "streams": rng.randrange(1, 3), "batching": joined}
    model = soak.tried("streams", lambda: s.compiled(**options))
    if model is None:
        return
    begun = time.monotonic()
    numbers = [rng.randrange(len(s.requests)) for _ in range(12)]
    with ThreadPoolExecutor(3) as clients:
        futures = list(clients.map(lambda n: soak.tried("submit", lambda: model.submit(s.requests[n])), numbers))
    for number, future in zip(numbers, futures, strict=True):
        if future is not None:
            expected = soak.faults.expected(begun)
            soak.check("stream", s, number, soak.tried("a stream's run", lambda f=future: f.result(120), *expected))
    soak.tried("close", lambda: model.close(drain=rng.random() < 0.5))


def text_sessions(soak: Soak, rng: random.Random) -> None:
    model = soak.shared["text"]
    session = soak.tried("session", model.session)
    if session is None:
        return
    tokens: list[int] = []
    ids = list(PROMPT)
    for _ in range(rng.randrange(2, TOKENS + 1)):
        results = soak.tried("a session's run", lambda i=tuple(ids): session.run(input_ids=np.array([i])))
        if results is None:
            return  # what it holds is not known after a fault
        tokens.append(int(results["logits"][0, -1].argmax()))
        ids = tokens[-1:]
        with soak.lock:
            soak.runs += 1
    if tokens != list(text()[: len(tokens)]):
        raise WrongError(f"a session's tokens are {tokens}, not {text()}")
    if rng.random() < 0.5:
        soak.tried("fork", session.fork)


def pooled(soak: Soak, rng: random.Random) -> None:
    for _ in range(3):
        s, number = _drawn(soak, rng)
        found = soak.tried("a pool's run", lambda s=s, n=number: soak.pool.run(s.name, s.requests[n]))
        soak.check("pool", s, number, found)
        if rng.random() < 0.2:
            soak.tried("evict", lambda s=s: soak.pool.evict(s.name))


def generated(soak: Soak, rng: random.Random) -> None:
    options = Options(max_tokens=rng.randrange(2, TOKENS + 1), ignore_end=True)
    stream = soak.tried("tokens", lambda: soak.language.tokens(PROMPT, options))
    if stream is None:
        return
    tokens: list[int] = []
    for _ in range(rng.randrange(1, options.max_tokens + 1)):  # others are never asked for
        token = soak.tried("a token", lambda: next(stream))
        if token is None:
            break
        tokens.append(token)
        with soak.lock:
            soak.runs += 1
    if tokens != list(text()[: len(tokens)]):
        raise WrongError(f"the tokens of a text are {tokens}, not {text()}")


def no_numbers(soak: Soak, rng: random.Random) -> None:
    s = rng.choice([x for x in soak.specimens if x.name in ("small", "convolutions", "matrices")])
    number = rng.randrange(len(s.requests))
    model = soak.shared[s.name]
    bad = {"x": np.full_like(s.requests[number]["x"], rng.choice([np.nan, np.inf]))}
    results = soak.tried("no numbers", lambda: model.run(bad))
    if results is not None and all(np.isfinite(a).all() for a in results.values()):
        raise WrongError(f"no numbers are numbers in the results of {s.name}")
    soak.check("run behind no numbers", s, number, soak.tried("run", lambda: model.run(s.requests[number])))


def ended(soak: Soak, rng: random.Random) -> None:
    s, number = _drawn(soak, rng, fixed=True)
    model = soak.shared[s.name]
    for _ in range(4):
        if rng.random() < 0.5:
            seconds = rng.random() * 0.004
            results = soak.tried(
                "time-out", lambda t=seconds: model.run(s.requests[number], timeout=t), RunTimeoutError
            )
        else:
            cancellation = clgraph.Cancellation()
            timer = threading.Timer(rng.random() * 0.004, cancellation.cancel)
            timer.start()
            results = soak.tried(
                "cancel", lambda c=cancellation: model.run(s.requests[number], cancellation=c), RunCancelledError
            )
            timer.join()
        soak.check("ended run", s, number, results)
    soak.check("run behind the end", s, number, soak.tried("run", lambda: model.run(s.requests[number])))


def bad_feeds(soak: Soak, rng: random.Random) -> None:
    s, number = _drawn(soak, rng)
    feeds = dict(s.requests[number])
    name = rng.choice(sorted(feeds))
    bad: list[dict[str, Any]] = [
        {**feeds, name: feeds[name][None]},
        {k: a for k, a in feeds.items() if k != name},
        {**feeds, "nothing": feeds[name]},
        {**feeds, name: feeds[name].astype(str)},
    ]
    if soak.tried("bad feeds", lambda: soak.shared[s.name].run(rng.choice(bad)), InputError) is not None:
        raise WrongError(f"{s.name} runs on feeds that are none of its inputs'")


EPISODES: dict[Callable[[Soak, random.Random], None], int] = {
    run_shared: 8,
    clones: 3,
    compiled: 2,
    saved: 2,
    streams: 2,
    text_sessions: 2,
    pooled: 2,
    generated: 2,
    no_numbers: 1,
    ended: 3,
    bad_feeds: 1,
}
"""How often each is drawn."""


def _drawn(soak: Soak, rng: random.Random, *, fixed: bool = False) -> tuple[Specimen, int]:
    known = [s for s in soak.specimens if not fixed or isinstance(soak.shared[s.name], clgraph.Model)]
    s = rng.choice(known)
    return s, rng.randrange(len(s.requests))


def _arrays(results: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in results.items()}
