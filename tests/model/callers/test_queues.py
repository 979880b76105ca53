"""Models in contexts and on queues of programs that know nothing of clgraph."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import DeviceError, OptionError
from tests.support.callers import BOUND, COLUMNS, ROWS

pytestmark = pytest.mark.opencl

cl = pytest.importorskip("pyopencl", reason="the caller's programs are pyopencl's")
cla = pytest.importorskip("pyopencl.array", reason="the caller's programs are pyopencl's")


def test_a_model_runs_on_the_callers_queue(case, queue, model):
    np.testing.assert_allclose(model.run(case[1])["y0"], case[2], **BOUND)
    engine = model._current().network.engine
    assert engine.stream.queue == queue
    assert queue.context.reference_count > 0


@pytest.mark.parametrize("given", ["context", "address of the context", "address of the queue", "any order"])
def test_contexts_and_queues_come_in_every_form(given, case, queue, handle):
    out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    options = {
        "context": lambda: {"context": queue.context},
        "address of the context": lambda: {"context": queue.context.int_ptr},
        "address of the queue": lambda: {"queue": queue.int_ptr},
        "any order": lambda: {"queue": cl.CommandQueue(queue.context, properties=out_of_order)},
    }[given]()
    found = clgraph.compile(case[0], **options)
    np.testing.assert_allclose(found.run(case[1])["y0"], case[2], **BOUND)
    assert found._current().network.engine._context == queue.context


def test_models_of_one_context_share_kernels(case, queue):
    first = clgraph.compile(case[0], queue=queue)
    second = clgraph.compile(case[0], queue=cl.CommandQueue(queue.context))
    engines = [m._current().network.engine for m in (first, second)]
    assert engines[0].programs is engines[1].programs
    assert engines[0].stream.queue != engines[1].stream.queue


def test_nothing_of_the_callers_is_kept_when_the_model_is_gone(case, handle):
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    counts = []
    for _ in range(3):  # PoCL keeps a context itself, once something has run in it
        with clgraph.compile(case[0], queue=queue, config={"model_cache": 0}) as model:
            model.run(case[1])
        del model
        gc.collect()
        counts.append((context.reference_count, queue.reference_count))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0][1] == 1


def test_wrong_pairs_are_refused(case, queue, handle):
    other = cl.Context([handle])
    for options, error, text in (
        ({"context": other, "queue": queue}, DeviceError, "belongs to another context"),
        ({"queue": 5}, DeviceError, "not 5"),
        ({"context": "mine"}, DeviceError, "not 'mine'"),
        ({"queue": queue, "device": "cpu"}, OptionError, "leave out device='cpu'"),
        ({"queue": queue, "hint": "throughput"}, OptionError, "queues of their own"),
    ):
        with pytest.raises(error, match=text):
            clgraph.compile(case[0], **options)


def test_arrays_of_pyopencl_go_in_and_out(case, queue, model):
    x, out = cla.to_device(queue, case[1]), cla.zeros(queue, (ROWS, COLUMNS), np.float32)
    found = model.run({"x0": x}, {"y0": out})
    assert found["y0"] is out
    np.testing.assert_allclose(out.get(), case[2], **BOUND)
    used = model._current().network.copies
    assert used["y0"] == ("written in place" if model.device.kind == "cpu" else "copied on the device")


def test_what_the_caller_has_enqueued_comes_first(case, queue, model, doubling):
    x = cla.to_device(queue, case[1])
    doubling(queue, (x.size,), None, x.data)
    np.testing.assert_allclose(model.run(x)["y0"], 2 * case[2], **BOUND)
    elsewhere = cl.CommandQueue(queue.context)
    event = doubling(elsewhere, (x.size,), None, x.data)
    np.testing.assert_allclose(model.run(x, wait_for=[event])["y0"], 4 * case[2], **BOUND)


def test_a_run_is_enqueued_between_the_callers_kernels(case, queue, model, doubling):
    x, out = cla.to_device(queue, case[1]), cla.zeros(queue, (ROWS, COLUMNS), np.float32)
    before = doubling(queue, (x.size,), None, x.data)
    event = model.enqueue(x, outputs={"y0": out}, wait_for=[before])
    doubling(cl.CommandQueue(queue.context), (out.size,), None, out.data, wait_for=[event]).wait()
    np.testing.assert_allclose(out.get(), 4 * case[2], **BOUND)
    again = model.run(x)["y0"]
    np.testing.assert_allclose(again, 2 * case[2], **BOUND)


def test_a_run_of_any_size_is_enqueued(case, queue):
    proto = onnx.load_model_from_string(case[0].SerializeToString())
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    proto.graph.output[0].type.tensor_type.shape.ClearField("dim")
    model = clgraph.compile(proto, queue=queue)
    for rows in (ROWS, 3, 5, 3):
        out = cla.zeros(queue, (rows, COLUMNS), np.float32)
        model.enqueue(cla.to_device(queue, case[1][:rows]), outputs={"y0": out}).wait()
        np.testing.assert_allclose(out.get(), case[2][:rows], **BOUND)


def test_threads_read_one_array(case, queue, model):
    x = cla.to_device(queue, case[1])

    def runs(_):
        return [model.run({"x0": x})["y0"] for _ in range(15)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(runs, range(4)):
            for y in found:
                np.testing.assert_allclose(y, case[2], **BOUND)
