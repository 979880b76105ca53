"""Declarations of built-in functions: which a kernel gets, and that it gets them."""

import pytest

from clgraph.core.part import folder_of
from clgraph.errors import KernelBuildError
from clgraph.runtime import binaries, driver, opencl
from clgraph.runtime.pocl_headers import CHOSEN, HEADER, make, options, parted, stems
from clgraph.runtime.wheel import wheel

LINES = """\
#define __ovld __attribute__((overloadable))
typedef int event;
float __ovld sin(float x);
float4 __ovld sin(float4 x);
void __ovld atomic_add(volatile __global int *object,
                       int operand);
int __ovld convert_int(float);
int4 __ovld convert_int4_sat(float4);
uint __ovld convert_uint(float) __attribute__((deprecated("convert_int(x)")));
#undef __ovld
""".splitlines()


def test_declarations_stand_behind_their_functions_and_nothing_is_lost():
    found = list(parted(LINES))
    assert "\n".join(line for line in found if CHOSEN not in line and line != "#endif").splitlines() == LINES
    guarded = [line.rpartition("_BUILTINS_")[2].rstrip(")") for line in found if CHOSEN in line]
    assert guarded == ["sin", "atomic_add", "convert_int", "convert_uint"]
    assert found[-1] == "#undef __ovld"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("y = sin(x);", {"sin"}),
        ("y = convert_int4_sat(x);", {"convert_int"}),
        ("#define AS(type) convert_##type", {"convert_int", "convert_uint"}),
        ("y = cosine(x) + sinus + not_atomic_add;", set()),
    ],
)
def test_a_kernel_asks_for_what_it_names(text, wanted):
    declared = frozenset({"sin", "atomic_add", "convert_int", "convert_uint"})
    assert set(options(text, declared).split()) == {f"-D{CHOSEN}", *(f"-D{CHOSEN}_{stem}" for stem in wanted)}


def test_a_damaged_header_is_made_anew(tmp_path):
    source, folder = tmp_path / "wheel", tmp_path / "links" / "include"
    source.mkdir()
    (source / HEADER).write_text("\n".join(LINES))
    (source / "pocl.h").write_text("pocl")
    make(folder, source)
    assert (source / HEADER).read_text() == "\n".join(LINES)
    assert (folder / "pocl.h").read_text() == "pocl"
    assert stems(folder, source) == {"sin", "atomic_add", "convert_int", "convert_uint"}
    whole = (folder / HEADER).read_bytes()
    (folder / HEADER).write_bytes(whole[:-20])
    assert stems(folder, source)
    assert (folder / HEADER).read_bytes() == whole


@pytest.mark.opencl
def test_pocl_compiles_with_few_declarations(engine, monkeypatch):
    if wheel() is None:
        pytest.skip("PoCL is not the wheel's")
    asked = []
    build = opencl.OpenCL.build
    monkeypatch.setattr(
        opencl.OpenCL, "build", lambda self, *args: (asked.append(args[-1]), build(self, *args))[1], raising=True
    )
    kernel = "__kernel void f(__global float4* x) { *x = %s; }"
    few = driver.declarations(engine._handle, "")
    assert CHOSEN in few
    binaries.build(engine._context, engine._handle, kernel % "exp(*x)", "", "f")
    assert len(asked) == 1
    assert asked[0].split() == [f"-D{CHOSEN}", f"-D{CHOSEN}_exp"]
    # What only the preprocessor makes a name of is found with all of them.
    pasted = "#define OF(a, b) a##b\n" + kernel % "OF(e, xp)(*x)"
    binaries.build(engine._context, engine._handle, pasted, "", "f")
    assert [CHOSEN in options for options in asked] == [True, True, False]
    with pytest.raises(KernelBuildError, match="no_such_function"):
        binaries.build(engine._context, engine._handle, kernel % "no_such_function(*x)", "", "f")


@pytest.mark.opencl
def test_what_pyopencl_says_of_its_home_later_leads_to_no_header(engine, monkeypatch):
    """pyopencl's Python half, imported behind clgraph, sets the variable that the loader was given."""
    declared = driver._declared()
    monkeypatch.setenv("PYOPENCL_HOME", str(folder_of("pyopencl")))
    driver._declared.cache_clear()
    assert driver._declared() == declared


def test_nothing_is_written_where_pocl_is_installed(tmp_path):
    include = tmp_path / "include"
    include.mkdir()
    (include / HEADER).write_text("int __ovld abs(int);\n")
    with pytest.raises(AssertionError, match="where PoCL is installed"):
        make(include, include, anew=True)
    assert not (include / HEADER).read_text().startswith("// clgraph")
