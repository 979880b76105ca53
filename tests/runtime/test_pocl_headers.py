"""Declarations of built-in functions: which a kernel gets, and that it gets them."""

import pytest

from clgraph.core.part import folder_of
from clgraph.errors import KernelBuildError
from clgraph.runtime import binaries, driver, opencl
from clgraph.runtime.pocl_headers import CHOSEN, DECLARATIONS, HEADER, WHOLE, declarations, make, needed, parted
from clgraph.runtime.wheel import wheel
from clgraph.selector.sources import source_text

TEXT = """\
#ifndef _OPENCL_H_
#define _OPENCL_H_
#define __ovld __attribute__((overloadable))
typedef int event;
// Sine; its
float __ovld sin(float x);
float4 __ovld sin(float4 x);
#if defined(A) &&   \\
    defined(B)
#ifdef C
double __ovld sin(double x);
#else
int __ovld sin(int x);
#endif // defined(A) && \\
       // C
/* Adds; */
void __ovld atomic_add(volatile __global int *object,
                       int operand);
#endif
int __ovld convert_int(float);
int4 __ovld convert_int4_sat(float4);
uint __ovld convert_uint(float) __attribute__((deprecated("convert_int(x)")));
#undef __ovld
#endif //_OPENCL_H_
"""
PARTS = {
    "": "#define __ovld __attribute__((overloadable))\ntypedef int event;\n",
    "sin": "float __ovld sin(float x);\nfloat4 __ovld sin(float4 x);\n#if defined(A) &&       defined(B)\n"
    "#ifdef C\ndouble __ovld sin(double x);\n#endif\n#ifdef C\n#else\nint __ovld sin(int x);\n#endif\n#endif\n",
    "atomic_add": "#if defined(A) &&       defined(B)\nvoid __ovld atomic_add(volatile __global int *object,\n"
    "                       int operand);\n#endif\n",
    "convert_int": "int __ovld convert_int(float);\nint4 __ovld convert_int4_sat(float4);\n",
    "convert_uint": 'uint __ovld convert_uint(float) __attribute__((deprecated("convert_int(x)")));\n',
}


def test_declarations_stand_under_their_conditions_with_those_of_their_function():
    assert parted(TEXT) == PARTS


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
    declared = {stem: part for stem, part in PARTS.items() if stem}
    assert needed(text, declared) == "".join([*(PARTS[stem] for stem in sorted(wanted)), "#line 1\n"])


def test_damaged_declarations_are_made_anew(tmp_path):
    source, folder = tmp_path / "wheel", tmp_path / "links" / "include"
    source.mkdir()
    (source / HEADER).write_text(TEXT)
    (source / "pocl.h").write_text("pocl")
    make(folder, source)
    assert (source / HEADER).read_text() == (folder / WHOLE).read_text() == TEXT
    assert (folder / "pocl.h").read_text() == "pocl"
    assert declarations(folder, source) == {stem: part for stem, part in PARTS.items() if stem}
    for name in (HEADER, DECLARATIONS):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-20])
        assert declarations(folder, source)
        assert (folder / name).read_bytes() == whole


@pytest.mark.opencl
def test_pocl_compiles_with_few_declarations(engine, monkeypatch):
    if wheel() is None:
        pytest.skip("PoCL is not the wheel's")
    asked = []
    build = opencl.OpenCL.build
    monkeypatch.setattr(
        opencl.OpenCL, "build", lambda self, *args: (asked.append(args[2:]), build(self, *args))[1], raising=True
    )
    kernel = "__kernel void f(__global float4* x) { *x = %s; }"
    assert driver.declarations(engine._handle, "") == "#line 1\n"
    binaries.build(engine._context, engine._handle, kernel % "exp(*x)", "", "f")
    ((text, options),) = asked
    assert options.split() == [f"-D{CHOSEN}"]
    assert "float4 __ovld __cnfn exp(float4 x);" in text
    assert " sin(" not in text
    # What only the preprocessor makes a name of is found with all of them.
    pasted = "#define OF(a, b) a##b\n" + kernel % "OF(e, xp)(*x)"
    binaries.build(engine._context, engine._handle, pasted, "", "f")
    assert [CHOSEN in options for _, options in asked] == [True, True, False]
    with pytest.raises(KernelBuildError, match="no_such_function"):
        binaries.build(engine._context, engine._handle, kernel % "no_such_function(*x)", "", "f")


@pytest.mark.opencl
def test_every_function_is_declared_for_itself(engine):
    """What a declaration needs beside the header's base, a type or a macro, is there; for each version of OpenCL C."""
    if wheel() is None:
        pytest.skip("PoCL is not the wheel's")
    declared = driver._declared()
    assert len(declared) > 500
    for version in ("1.2", "2.0", "3.0"):
        text = "".join(declared[stem] for stem in sorted(declared)) + "__kernel void f(__global int* x) { *x = 1; }"
        driver.load().build(engine._context, engine._handle, text, f"-cl-std=CL{version} -D{CHOSEN} -Werror")


@pytest.mark.opencl
@pytest.mark.parametrize("cpu", [[], ["-DCLGRAPH_NO_FMA"]], ids=["fma", "no-fma"])
def test_what_every_text_for_cpus_starts_with_compiles_without_a_warning(engine, cpu):
    """PoCL writes the number of warnings to standard error, which belongs to the program that uses clgraph."""
    text = source_text("include/multiply_add.clh") + "__kernel void f(__global float* x) { *x = fma(*x, *x, *x); }"
    options = " ".join(["-cl-std=CL1.2", "-Werror", *cpu])
    binaries.build(engine._context, engine._handle, text, options, "f")
    driver.load().build(engine._context, engine._handle, text, options)


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
    assert [path.name for path in include.iterdir()] == [HEADER]
