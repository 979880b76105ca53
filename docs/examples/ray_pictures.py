"""Classify a folder of pictures on a Ray cluster: ``python ray_pictures.py model.onnx PICTURES RESULTS``.

The model takes ``[batch, 3, 224, 224]``, with ImageNet's means and deviations; the results are Parquet files.
"""

import sys

import numpy as np
import ray

import clgraph.ray

MEAN = np.float32([0.485, 0.456, 0.406])
DEVIATION = np.float32([0.229, 0.224, 0.225])


def prepared(batch):
    """Return paths and normalized pictures, channels first."""
    pictures = (np.stack(batch["image"]).astype(np.float32) / 255 - MEAN) / DEVIATION
    return {"path": batch["path"], "picture": np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))}


def best(batch):
    """Return for each path the class of the highest score, and the score."""
    classes = batch["score"].argmax(axis=1)
    return {
        "path": batch["path"],
        "class": classes,
        "score": np.take_along_axis(batch["score"], classes[:, None], 1)[:, 0],
    }


if __name__ == "__main__":
    model, pictures, results = sys.argv[1:]
    signature = clgraph.compile(model)
    (x,), (y,) = signature.input_names, signature.output_names
    signature.close()
    dataset = ray.data.read_images(pictures, size=(224, 224), mode="RGB", include_paths=True)
    dataset = dataset.map_batches(prepared, batch_size=32)
    dataset = clgraph.ray.map_batches(
        dataset, model, inputs={x: "picture"}, results={y: "score"}, batch_size=32, actors=(1, 1000), num_cpus=1
    )
    dataset.map_batches(best, batch_size=None).write_parquet(results)
