"""Jobs and services on a cluster of several node processes, one of which is killed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph.ray
from clgraph.errors import ClosedError, InputError
from tests.support.models import image, small_model

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytest.importorskip("ray.cluster_utils", reason="this Ray has no clusters for tests")
pytestmark = [pytest.mark.slow, pytest.mark.opencl]

ROWS, BLOCKS = 240, 24


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model") / "model.onnx"
    model = small_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, made)
    return made


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100 << 20})
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, object_store_memory=100 << 20)
        ray.init(address=made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def pictures(batch: dict[str, Any]) -> dict[str, Any]:
    import time

    time.sleep(0.05)  # so that the job is still running when the node is killed
    return {"id": batch["id"], "x": np.concatenate([image((1, 3, 10, 10), seed=int(i)) for i in batch["id"]])}


def test_a_job_has_every_row_once_though_a_node_is_killed(cluster: Any, path: Path) -> None:
    assert len(clgraph.ray.warm(path, threads=1)) == 3
    (name,) = clgraph.compile(path, threads=1).output_names
    dataset = ray.data.range(ROWS, override_num_blocks=BLOCKS).map_batches(pictures, batch_size=None)
    scored = clgraph.ray.map_batches(dataset, path, results={name: "score"}, batch_size=8, actors=(1, 2))
    killed, rows = None, []
    for batch in scored.iter_batches(batch_size=10):
        rows.extend(zip(batch["id"].tolist(), batch["score"], strict=True))
        if killed is None:
            killed = next(iter(cluster.worker_nodes))
            cluster.remove_node(killed, allow_graceful=False)
    assert sum(node["Alive"] for node in ray.nodes()) == 2
    assert sorted(number for number, _ in rows) == list(range(ROWS))
    model = clgraph.compile(path, threads=1)
    feeds = np.concatenate([image((1, 3, 10, 10), seed=number) for number, _ in rows[:8]])
    # Batches of 8 are one program, in which no row depends on its neighbours.
    np.testing.assert_array_equal(np.stack([s for _, s in rows[:8]]), model.run(feeds)[name])


def test_a_pipeline_has_every_request_once_with_the_same_bits_though_a_node_of_a_stage_is_killed(
    cluster: Any,
) -> None:
    model = small_model(size=256).SerializeToString()
    whole = clgraph.compile(model, threads=1)
    (name,) = whole.output_names
    requests = [image((1, 3, 256, 256), seed=number) for number in range(40)]
    stages = [clgraph.ray.Stage("first"), clgraph.ray.Stage("second")]
    with clgraph.ray.pipeline(model, stages) as pipeline:
        assert [layers for layers, _ in pipeline.stages] == [3, 3]
        found, killed = [], None
        for results in pipeline.map({"x": x} for x in requests):
            found.append(results[name])
            if len(found) == 10:
                first, second = pipeline.report()
                # Both work at once, and what the first has made is read in the memory that processes share.
                assert any(a < d and c < b for a, b in first.spans for c, d in second.spans)
                assert second.shared == ("p0",)
                assert second.copies["p0"] == "read in place"
                used = {first.node, second.node}
                killed = next(node for node in cluster.worker_nodes if node.node_id in used)
                cluster.remove_node(killed, allow_graceful=False)
        assert len(found) == len(requests)
        assert killed.node_id not in {report.node for report in pipeline.report()}
        np.testing.assert_array_equal(np.stack(found), np.stack([whole(x) for x in requests]))
        with pytest.raises(InputError, match="does not fit"):
            pipeline.run(np.zeros((1, 3, 7), np.float32))
        np.testing.assert_array_equal(pipeline.run(x=requests[0])[name], found[0])
    with pytest.raises(ClosedError):
        pipeline.run(requests[0])


def test_a_service_answers_handles_and_http_and_says_what_it_does_not_take(cluster: Any, path: Path) -> None:
    from ray import serve

    handle = serve.run(clgraph.ray.deployment(path, replicas=(1, 2), batching=clgraph.Batching(maximum=4)))
    try:
        (name,) = clgraph.compile(path, threads=1).output_names
        x = image((1, 3, 10, 10))
        found = handle.remote({"x": x}).result(timeout_s=120)[name]
        asked = urllib.request.Request("http://127.0.0.1:8000/", json.dumps({"inputs": {"x": x.tolist()}}).encode())
        with urllib.request.urlopen(asked, timeout=60) as answer:
            np.testing.assert_array_equal(np.asarray(json.load(answer)["outputs"][name], np.float32), found)
        for body in (b"{", b'{"inputs": {"x": [[1], [2, 3]]}}', b'{"inputs": {"q": [1]}}'):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8000/", body), timeout=60)
            assert refused.value.code == 400
            assert json.loads(refused.value.read())["error"]
        with pytest.raises(InputError):
            handle.remote({"q": x}).result(timeout_s=60)
    finally:
        serve.shutdown()
