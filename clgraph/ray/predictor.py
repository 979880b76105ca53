"""The callable that an actor of a Ray Data job keeps: batches of columns in, batches with the results out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.compilation.entry import compile_model
from clgraph.errors import InputError, OptionError, ShapeError
from clgraph.ray.cluster import source_of
from clgraph.ray.rows import equal_shapes, filled, in_order, pieces


class Predictor:
    """A compiled model, applied to the rows of batches: for ``Dataset.map_batches``, and without Ray as well.

    The rows are independent of each other, whatever batch they come in: they are run in batches of few sizes, the last
    of which is filled up with copies of its last row. Rows of different shapes are run apart.
    """

    def __init__(
        self,
        model: Any,
        inputs: Mapping[str, str] | None = None,
        results: Mapping[str, str] | None = None,
        batch_size: int = 32,
        **options: Any,
    ) -> None:
        """Compile *model*, or take it out of this machine's model cache.

        Args:
            model: What ``clgraph.compile`` takes, or a reference to its bytes in Ray's object store.
            inputs: The column of each input; by default that of the input's name.
            results: The column of each result that is kept; by default all, by the names of the outputs.
            batch_size: Rows of a run at most. A batch that the model fixes goes before it.
            options: As for ``clgraph.compile``.

        Raises:
            OptionError: A name that the model does not have, inputs of different fixed batches, no such number of rows.
            ClgraphError: The model cannot be compiled.
        """
        if not isinstance(batch_size, int) or batch_size < 1:
            raise OptionError(f"batch_size={batch_size!r} is not a number of rows")
        self._model = compile_model(source_of(model), **options)
        names, outputs = self._model.input_names, self._model.output_names
        _check("inputs", inputs or {}, names)
        _check("results", results or {}, outputs)
        self._inputs = {name: (inputs or {}).get(name, name) for name in names}
        self._results = dict(results or {name: name for name in outputs})
        fixed = _fixed_batch(self._model.input_shapes)
        self._size, self._is_fixed = fixed or batch_size, fixed is not None

    def __call__(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the results of *batch* as columns beside those that are no input.

        Raises:
            InputError: A column is missing, or a result has the name of one that is kept.
            ShapeError: A result has not a row for each row of the batch.
            ClgraphError: As ``Model.run``.
        """
        found = {name: column for name, column in batch.items() if name not in self._inputs.values()}
        if missing := sorted(set(self._inputs.values()) - batch.keys()):
            raise InputError(
                f"the batch has no column {missing[0]!r}, but {', '.join(map(repr, batch))}: name it by inputs="
            )
        if clash := sorted(found.keys() & set(self._results.values())):
            raise InputError(f"the batch has a column {clash[0]!r} already: name the result's by results=")
        parts: dict[str, list[tuple[NDArray[np.intp], NDArray[Any]]]] = {name: [] for name in self._results}
        for numbers, rows in equal_shapes({name: np.asarray(batch[c]) for name, c in self._inputs.items()}):
            for start, end, size in pieces(len(numbers), self._size, fixed=self._is_fixed):
                feeds = {name: filled(column[start:end], size) for name, column in rows.items()}
                made = self._model.run(feeds, outputs=list(self._results))
                for name, result in made.items():
                    if result.ndim == 0 or len(result) != size:
                        raise ShapeError(
                            f"output {name!r} is {list(result.shape)} for {size} rows, not a row for each: leave it "
                            "out by results="
                        )
                    parts[name].append((numbers[start:end], result[: end - start]))
        return found | {column: in_order(parts[name]) for name, column in self._results.items() if parts[name]}


def _check(what: str, given: Mapping[str, str], known: tuple[str, ...]) -> None:
    if unknown := [name for name in given if name not in known]:
        raise OptionError(f"{what}: the model has no {unknown[0]!r}, but {', '.join(map(repr, known))}")
    if len(set(given.values())) < len(given):
        raise OptionError(f"{what}: two of {', '.join(given)} name one column")


def _fixed_batch(shapes: Mapping[str, tuple[Any, ...] | None]) -> int | None:
    """Return the batch that all inputs fix; ``None`` for one that is open.

    Raises:
        OptionError: An input has no batch, or inputs fix different ones.
    """
    for name, shape in shapes.items():
        if shape == ():
            raise OptionError(f"input {name!r} has no batch dimension, so that it cannot be a column")
    fixed = {shape[0] for shape in shapes.values() if shape and isinstance(shape[0], int)}
    if len(fixed) > 1:
        raise OptionError(f"inputs have different batches: {dict(shapes)}; reshape the model")
    return fixed.pop() if fixed else None
