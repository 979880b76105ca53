import subprocess
import sys
from pathlib import Path

import pytest

from clgraph.errors import RegistrationError
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.library import compose, tile_text
from clgraph.selector.micro_kernels import FAMILIES, Micro, MicroFamily, micro_family
from tests.support import tiny

ONE, TWO = (Micro.of("shift_test.cl", SHIFT=s) for s in (1, 2))


@pytest.fixture
def _registries():
    saved = DESCRIPTORS.snapshot(), FAMILIES.snapshot()
    yield
    DESCRIPTORS.restore(saved[0])
    FAMILIES.restore(saved[1])


def test_the_text_is_the_same_bytes_in_another_process():
    code = (
        "import sys; from tests.support import tiny; from clgraph.selector.library import compose;"
        "sys.stdout.write(compose('test', 16).text)"
    )
    root = Path(__file__).parents[2]
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(root), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1] == compose("test", 16).text
    assert str(root) not in texts[0]


def test_each_instance_is_written_out_once_under_its_own_name_and_dispatched_by_id():
    library = compose("test", 16)
    assert library.functions == ("copy_test", "scale_add_test")
    assert library.instances == 2
    text = library.text
    for n, shift in enumerate((1, 2)):
        start = text.index(f"#define SHIFT {shift}\n#define shift_test shifts_test_{n}\n")
        assert text.index("#undef SHIFT", start) < text.index("NOINLINE static void shifts_test(const int id,")
        assert f"case {n}: shifts_test_{n}(p, n); break;" in text
    assert text.count("typedef struct { long operand;") == 1, "headers come once"
    structs = ["} copy_test_desc;", "} scale_add_test_desc;", "shifts_test(const int id"]
    functions = ["void copy_test(", "void scale_add_test(", "case 0: copy_test(", "case 1: scale_add_test("]
    places = [text.index(part) for part in [*structs, *functions, "__kernel void executor_tiles("]]
    assert places == sorted(places)


def test_what_a_micro_kernel_returns_comes_through_its_dispatch():
    text = tile_text("conv_fsv16")
    assert "NOINLINE static int micro_conv(const int id," in text
    assert "    case 0: return micro_conv_0(ip, wp, bias," in text


def test_tile_functions_stay_out_of_line():
    text = compose("test", 16).text
    for function in ("copy_test", "scale_add_test"):
        declaration = text.index(f"NOINLINE static void {function}(__global const {function}_desc*, ")
        assert declaration < text.index(f"\nstatic void {function}(__global const {function}_desc* ")


def test_ids_are_positions_in_the_list_of_the_widest_fitting_vectors():
    family = MicroFamily("f", {8: (ONE,), 16: (TWO, ONE)})
    assert [family.id(simd, ONE) for simd in (4, 8, 16, 32)] == [0, 0, 1, 1]
    with pytest.raises(RegistrationError, match="no instance"):
        family.id(8, TWO)


@pytest.mark.parametrize("instances", [{}, {8: []}, {8: [ONE, ONE]}])
def test_a_family_needs_instances_each_once(instances):
    with pytest.raises(RegistrationError, match="needs instances"):
        micro_family("bad_test", instances)


@pytest.mark.usefixtures("_registries")
def test_a_library_that_nobody_declares_and_a_missing_family_are_errors():
    with pytest.raises(RegistrationError, match="no tile function"):
        compose("nothing", 16)
    FAMILIES.restore({})
    with pytest.raises(RegistrationError, match="no micro-kernel family is called 'shifts_test'"):
        compose("test", 16)


@pytest.mark.usefixtures("_registries")
def test_micro_kernels_of_one_family_take_the_same_parameters():
    FAMILIES.restore({})
    micro_family("shifts_test", {8: [ONE, Micro.of("executor/executor_tiles.cl")]})
    with pytest.raises(RegistrationError, match=r"defines no function|different parameters"):
        compose("test", 16)


def test_a_tile_function_compiles_alone_with_one_instance_of_each_family():
    text = tile_text("scale_add_test")
    assert text.count("static void shift_test(") == 1
    assert "__kernel void scale_add_test_alone" in text
    assert "executor_tiles" not in text
    assert tiny.ScaleAddDescriptor.c_struct() in text


@pytest.mark.opencl
def test_the_library_and_the_text_of_a_tile_function_alone_compile(engine):
    engine.build(compose("test", engine.info.simd).text, "library test", library=True)
    engine.build(tile_text("scale_add_test", engine.info.simd), "scale_add_test")
