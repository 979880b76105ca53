"""Serve a model on a Ray cluster, with more replicas while more is asked: ``python ray_service.py model.onnx``.

A request is ``{"inputs": {"x": [[...]]}}``, posted to port 8000; Ctrl-C ends it.
"""

import sys

from ray import serve

import clgraph
import clgraph.ray


def application(model, replicas=(1, 4)):
    """Return the service: a replica more for every 4 requests that are on their way."""
    return clgraph.ray.deployment(
        model,
        replicas=replicas,
        autoscaling={"target_ongoing_requests": 4, "upscale_delay_s": 2, "downscale_delay_s": 30},
        batching=clgraph.Batching(maximum=8),
        queue_size=128,
    )


if __name__ == "__main__":
    serve.run(application(sys.argv[1]), blocking=True)
