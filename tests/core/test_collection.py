"""Holding off the search for cyclic garbage while a model is compiled or loaded."""

import gc
import weakref

import pytest

from clgraph.core.collection import without_collection


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


class _Garbage:
    """Refers to itself, and to enough to be noticed."""

    def __init__(self) -> None:
        self.itself, self.much = self, [[i] for i in range(20_000)]


def test_garbage_that_counts_as_old_is_found_when_there_is_much_of_it():
    gone = []
    for _ in range(40):
        with without_collection():
            gone.append(weakref.ref(_Garbage()))
    assert sum(ref() is not None for ref in gone) < 20


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
