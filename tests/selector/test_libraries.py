"""Programs need few libraries, and steps in a row stay in one."""

import pytest

from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.libraries import LIBRARIES, SHARED, holds, run_in
from clgraph.selector.library import compose, tile_file, tile_text


@pytest.mark.parametrize(
    ("declared", "runs"),
    [
        ([], []),
        (["core", "core"], ["core", "core"]),
        (["core", "convolution", "core"], ["convolution"] * 3),
        (["core", "rare", "core"], ["core", "rare", "core"]),
        (["convolution", "core", "bytes", "core", "core"], ["convolution"] * 2 + ["bytes"] * 3),
        (["bytes", "rare", "core", "convolution"], ["bytes", "rare", "bytes", "convolution"]),
        (["weights", "weights"], ["weights", "weights"]),
        (["core", "direct"], ["convolution"] * 2),
        (["bytes", "direct", "core", "bytes"], ["bytes"] * 4),
        (["bytes", "direct", "convolution", "direct"], ["bytes"] * 2 + ["convolution"] * 2),
        (["weights", "blocked", "weights"], ["weights"] * 3),
        (["blocked", "rare"], ["core", "rare"]),
        (["blocked", "direct"], ["convolution"] * 2),
        (["moves"], ["core"]),
        (["moves", "rare"], ["rare"] * 2),
        (["core", "moves", "rare", "moves"], ["core"] * 2 + ["rare"] * 2),
        (["core", "somebody's"], ["core", "somebody's"]),
    ],
)
def test_a_step_runs_in_the_library_of_those_before_it_where_that_holds_its_function(
    declared: list[str], runs: list[str]
) -> None:
    assert run_in(declared) == runs
    assert all(map(holds, runs, declared))


def test_every_tile_function_is_in_a_known_library_and_in_those_that_hold_it() -> None:
    own = [d for d in DESCRIPTORS.values() if d.__module__.startswith("clgraph.")]
    assert {d.library for d in own} == {*LIBRARIES, *SHARED}
    functions = {name: set(compose(name, 16).functions) for name in LIBRARIES}
    for d in own:
        found = {name for name in LIBRARIES if d.function in functions[name]}
        wanted = {d.library, *SHARED.get(d.library, ())}
        assert found == wanted & {*LIBRARIES}, d.function


@pytest.mark.parametrize("library", ["core", "convolution", "bytes", "bfloat"])
def test_an_image_in_front_of_a_network_needs_no_other_library(library: str) -> None:
    assert holds(library, DESCRIPTORS["image_planes_rows"].library)


def test_of_functions_made_of_one_file_a_library_has_that_which_does_more() -> None:
    for name in LIBRARIES:
        library = compose(name, 16)
        files = [tile_file(DESCRIPTORS[f]) for f in library.functions]
        for function, file in zip(library.functions, files, strict=True):
            called = function if files.count(file) == 1 else "number_elements"
            number = library.functions.index(function)
            assert f"case {number}: {called}((__global const {called}_desc*)d, " in library.text
            assert library.text.count(f'#line 1 "{file}"') == 1
    assert {"elements", "number_elements"} <= {*compose("rare", 16).functions}
    text = tile_text("number_elements")
    assert "#define NUMBERS 1\n#define elements number_elements\n#define elements_desc number_elements_desc\n" in text
    assert "} number_elements_desc;" in text
