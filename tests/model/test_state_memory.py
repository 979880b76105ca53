"""The memory of sessions: counted in the budget of their model, refused where that has no room, and given back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClosedError, MemoryLimitError
from clgraph.model.state.session import Session
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model

pytestmark = pytest.mark.opencl

DECODER = Decoder("genai", 1)
PROMPT = np.random.default_rng(0).integers(0, 300, (1, 20))


def begun(model: clgraph.Model) -> Session:
    """Return a session that has a prompt."""
    session = model.session()
    session.run(input_ids=PROMPT)
    return session


def nbytes(session: Session) -> int:
    """Return the bytes of a session's caches."""
    return 0 if session._caches is None else session._caches.nbytes


def test_caches_count_in_the_budget_and_what_exceeds_it_is_refused(device: str) -> None:
    budget = clgraph.MemoryBudget(1 << 20)
    with clgraph.compile(decoder_model(DECODER), device, memory_limit=budget) as model:
        sessions = [begun(model)]
        sizes, each = [budget.taken[device]], nbytes(sessions[0])
        for _ in range((budget - sizes[0]) // each):
            sessions.append(begun(model))
            sizes.append(budget.taken[device])
        assert {after - before for before, after in itertools.pairwise(sizes)} == {each}
        assert sizes[-1] <= budget < sizes[-1] + each
        refused = model.session()
        with pytest.raises(MemoryLimitError, match=r"caches of 256 places take .* and memory_limit allows 1\.0 MiB"):
            refused.run(input_ids=PROMPT)
        with pytest.raises(MemoryLimitError, match="caches of 256 places take"):
            sessions[0].fork()
        sessions.pop().close()
        refused.run(input_ids=PROMPT)
        assert budget.taken == {device: sizes[-1]}
    sessions.append(refused)
    assert budget.taken == {device: len(sessions) * each}, "sessions have it until they are closed"
    for session in sessions:
        session.close()
    assert not budget.taken


def test_caches_that_grow_evict_another_model_of_the_pool(device: str) -> None:
    with clgraph.Pool("2 MiB", device=device) as pool:
        for name in ("other", "text"):
            pool.add(name, decoder_model(DECODER))
        with pool.using("other") as model:
            begun(model).close()
        with pool.using("text") as model:
            sessions = [begun(model)]
            assert pool.report_of("other").loaded, "there is room for both, and for a few sessions"
            while pool.report_of("other").loaded:
                sessions += [begun(model)]
            assert len(sessions) > 2
            assert not pool.report_of("other").loaded
            assert pool.budget.taken[device] <= pool.budget


def test_a_closed_model_gives_back_what_the_programs_of_its_sessions_take(device: str) -> None:
    budget = clgraph.MemoryBudget(0)
    model = clgraph.compile(decoder_model(DECODER), device, memory_limit=budget)
    session = begun(model)
    model.run(decoder_feeds(DECODER, PROMPT))
    model.close()
    assert budget.taken == {device: nbytes(session)}
    with pytest.raises(ClosedError, match="closed"):
        session.run(input_ids=PROMPT[:, :1])
    session.close()
    assert not budget.taken
