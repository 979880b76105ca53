"""Holding off the search for cyclic garbage while a model is compiled or loaded."""

import gc

import pytest

from clgraph.engines import without_collection


@pytest.fixture(autouse=True)
def _enabled():
    gc.enable()
    yield
    gc.enable()


def test_what_was_made_meanwhile_counts_as_old_afterwards():
    with without_collection():
        assert not gc.isenabled()
        made = [[i] for i in range(1000)]
    assert gc.isenabled()
    old = {id(x) for x in gc.get_objects(generation=2)}
    assert all(id(x) in old for x in made)
    assert gc.get_freeze_count() == 0


def test_what_the_program_around_has_frozen_stays_frozen():
    gc.freeze()
    try:
        with without_collection():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_search_that_the_program_around_has_turned_off_stays_off():
    gc.disable()
    with without_collection():
        pass
    assert not gc.isenabled()
