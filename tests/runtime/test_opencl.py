"""OpenCL through the compiled half of pyopencl: what is refused, and what errors say."""

import numpy as np
import pytest

from clgraph.errors import KernelBuildError
from clgraph.runtime import opencl
from clgraph.runtime.kernels import Kernel

pytestmark = pytest.mark.opencl

TEXT = "__kernel void scaled(__global float* x, const float by) { x[get_global_id(0)] *= by; }"


def test_an_error_names_the_function_and_opencls_code(engine):
    cl = opencl.load()
    with pytest.raises(cl.Error, match="create_buffer failed: INVALID_BUFFER_SIZE"):
        cl.Buffer(engine._context, cl.mem_flags.READ_WRITE, 0)
    record = cl._ErrorRecord("clAnything", cl.status_code.OUT_OF_RESOURCES, "too much")
    assert opencl._told(cl.status_code, cl.LogicError(record)) == "clAnything failed: OUT_OF_RESOURCES - too much"
    assert opencl._told(cl.status_code, cl.LogicError("said otherwise")) == "said otherwise"
    assert opencl._told(cl.status_code, cl.LogicError(cl._ErrorRecord("f", -99999, ""))) == "f failed: error -99999"


def test_a_kernel_is_refused_by_its_name_and_its_arguments(engine):
    x = engine.upload(np.arange(8, dtype=np.float32), "x")
    for entry, args, why in (
        ("other", [x, np.float32(2)], "clCreateKernel failed: INVALID_KERNEL_NAME"),
        ("scaled", [x], "it takes 2"),
        ("scaled", [x, np.float32(2), x], "it takes 2"),
        ("scaled", [x, np.int64(2)], "clSetKernelArg failed: INVALID_ARG_SIZE"),
    ):
        with pytest.raises(KernelBuildError, match=why):
            engine.kernel(TEXT, entry, args)


def test_a_launch_waits_for_the_events_that_it_is_given(engine):
    cl = opencl.load()
    x = engine.upload(np.arange(8, dtype=np.float32), "x")
    bound = engine.kernel(TEXT, "scaled", [x, np.float32(2)])
    launch = bound.handle.launch_after(engine.stream.queue, (8,), None)
    before = launch([])
    assert launch([before, before]).get_info(cl.event_info.COMMAND_TYPE) == cl.command_type.NDRANGE_KERNEL
    found = np.empty(8, np.float32)
    engine.stream.read(x, 0, found)
    np.testing.assert_array_equal(found, 4 * np.arange(8))
    assert before.get_info(cl.event_info.COMMAND_EXECUTION_STATUS) == cl.command_execution_status.COMPLETE
    with pytest.raises(cl.Error, match="clEnqueueNDRangeKernel failed: INVALID_WORK_GROUP_SIZE"):
        bound.handle.launch(engine.stream.queue, (8,), (3,))()


def test_a_kernel_keeps_its_program_and_gives_itself_back(engine):
    cl = opencl.load()
    program = cl.build(engine._context, engine._handle, TEXT, "-cl-std=CL1.2")
    count = program.get_info(cl.program_info.REFERENCE_COUNT)
    buffer = cl.Buffer(engine._context, cl.mem_flags.READ_WRITE, 32)
    kernel = Kernel(cl, program, "scaled", [buffer, np.float32(1)])
    assert program.get_info(cl.program_info.REFERENCE_COUNT) == count + 1
    del kernel
    assert program.get_info(cl.program_info.REFERENCE_COUNT) == count


def test_a_release_without_a_name_is_refused_by_that_name(monkeypatch):
    monkeypatch.setattr(opencl, "_NEEDED", ("_Program", "_renamed"))
    with pytest.raises(ImportError, match="this release of pyopencl has no _renamed"):
        opencl.load.__wrapped__()


def test_pyopencl_is_imported_beside_it(engine):
    import pyopencl

    assert pyopencl._cl is opencl.load()._cl
    assert {device.name for platform in pyopencl.get_platforms() for device in platform.get_devices()}
    assert isinstance(engine._context, pyopencl.Context)
