"""Models on many machines: batch jobs of Ray Data and services of Ray Serve (docs/ray.md).

Modules import Ray where they use it: ``import ray`` means Ray itself in all of them, and the extra ``ray`` brings it.
"""

from __future__ import annotations

from clgraph.ray.cluster import warm
from clgraph.ray.data import map_batches
from clgraph.ray.pipeline import Pipeline, Stage, pipeline
from clgraph.ray.predictor import Predictor
from clgraph.ray.service import deployment

__all__ = ["Pipeline", "Predictor", "Stage", "deployment", "map_batches", "pipeline", "warm"]
