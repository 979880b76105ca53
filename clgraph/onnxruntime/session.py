"""``InferenceSession``: a compiled model under ONNX Runtime's interface."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clgraph.errors import ClgraphError, InputError
from clgraph.model.model import Model
from clgraph.model.run_queue import RunQueue
from clgraph.network.cancelling import Cancellation
from clgraph.onnxruntime.binding import IOBinding
from clgraph.onnxruntime.described_session import DescribedSession
from clgraph.onnxruntime.feeds import Feeds
from clgraph.onnxruntime.forked import FORKING, HOST, elsewhere, made
from clgraph.onnxruntime.loading import checked_source, compilation_of
from clgraph.onnxruntime.notes import log, say_once
from clgraph.onnxruntime.options import NO_CPU, SessionOptions
from clgraph.onnxruntime.profiling import Trace
from clgraph.onnxruntime.providers import Provided, check_known, provided, provided_or_cpu
from clgraph.onnxruntime.run_options import RunOptions
from clgraph.onnxruntime.schemas import unknown_operators
from clgraph.onnxruntime.selecting import selected
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError, StatusError, plainly, statuses
from clgraph.onnxruntime.value_lists import OrtValueVector
from clgraph.onnxruntime.values import OrtValue

Callback = Callable[[list[Any], Any, str], object]
"""Takes the results, what the caller has given for it, and an error's text, empty where there is none."""


class InferenceSession(DescribedSession):
    """A model, compiled for a device. Calls from several threads are served one after the other."""

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | None = None,
        providers: Any = None,
        provider_options: Any = None,
        **ignored: Any,
    ) -> None:
        """Compile a model.

        Args:
            path_or_bytes: Path of an ONNX file, or its bytes.
            sess_options: Options; those that mean nothing here are logged once.
            providers: Names of execution providers, or pairs of name and options: ``CPUExecutionProvider``, or
                ``ClgraphExecutionProvider`` with the options of :func:`clgraph.compile`. Others are warned about.
            provider_options: One dictionary a provider. Where both mean nothing the CPU is taken, with a warning.
            ignored: Arguments that ONNX Runtime keeps to itself; with ``enable_fallback=0`` providers that mean nothing
                are a ``ValueError``, unknown ones a ``RuntimeError``.

        Raises:
            NoSuchFile, InvalidProtobuf: There is no such file, or no model in it.
            InvalidGraph: A node is not what its operator's schema says.
            Fail: The model is damaged in another way, or data beside it cannot be read.
            NotImplemented: clgraph does not have what the model asks for.
            InvalidArgument: An option means nothing.
            MismatchError: *path_or_bytes* or *sess_options* is something else.
        """
        sess_options = sess_options or None
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise MismatchError(f"sess_options are SessionOptions, not {type(sess_options).__name__}")
        self._source = checked_source(path_or_bytes)
        self._sess_options_initial = sess_options
        self._options = SessionOptions() if sess_options is None else sess_options.held()
        self._options.check_severity()
        self._options.say_unused()
        self._enable_fallback = int(ignored.pop("enable_fallback", 1)) == 1
        for name in sorted(ignored):
            say_once(f"InferenceSession({name}=...): no meaning in clgraph")
        self._queue = RunQueue("clgraph-onnxruntime")
        self._trace = Trace(self._options.profile_file_prefix) if self._options.enable_profiling else None
        self._closing = None if self._trace is None else weakref.finalize(self, self._trace.write)
        self._opened = time.monotonic_ns()
        if not providers and self._options.has_providers():
            providers, provider_options = list(self._wished().items()), None
        if not self._enable_fallback:
            check_known(providers)
        asked = provided_or_cpu if self._enable_fallback else provided
        self._compile(asked(providers, provider_options))
        FORKING.add(self)

    def leave(self) -> None:
        """Let another process run the model: this one was forked, and has not the threads of OpenCL's drivers."""
        if self._provided.device != HOST:
            if self._closing is not None:
                self._closing.detach()
            self._trace = self._closing = None
            self._model = elsewhere(self._model, lambda: compilation_of(self._source, self._options, self._provided))
            self._others.clear()

    def _wished(self) -> Mapping[str, Mapping[str, str]]:
        """Return the options, by name, of the providers that the session's options have or select."""
        if self._options.providers or self._options.policy is None:
            return self._options.providers
        with statuses(loading=True):
            return selected(self._options.policy, self._source)

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Compile the model for other providers.

        Raises:
            OptionError: They are no names, pairs of name and options, or as many options as names (a ``ValueError``).
            StatusError: As the constructor.
            RefusedError: There is no such provider, here or elsewhere (a ``RuntimeError``).
        """
        check_known(providers)
        self._compile(provided(providers, provider_options))

    def _compile(self, asked: Provided) -> None:
        start = time.monotonic_ns()
        self._provided = asked
        with statuses(loading=True), unknown_operators(self._source):
            self._model = made(compilation_of(self._source, self._options, self._provided))
        if self._options.asks_for(NO_CPU) and self._model.device.kind in ("cpu", HOST):
            raise Fail(f"the session would run on {self._model.device.name}, and its options refuse CPUs ({NO_CPU})")
        self._describe()
        self._feeds = Feeds(self._model.inputs, self._overridable)
        self._names = list(self._model.about.listed or self._model.output_names)
        self._others: dict[tuple[frozenset[str], frozenset[str]], Model] = {}
        log.info("session for %s, compiled in %.0f ms", ", ".join(asked.options), (time.monotonic_ns() - start) / 1e6)
        if self._trace is not None:
            self._trace.note("session_initialization", "Session", start)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the results: arrays, in the order of *output_names*, by default of all outputs.

        Args:
            output_names: Names of outputs; all where there are none.
            input_feed: A value an input, by name. Nested lists and numbers take the input's type; an array has it.
            run_options: ``terminate`` ends the run.

        Raises:
            InputError: An input is missing (a ``ValueError``).
            InvalidArgument: A name is unknown, or a feed does not fit.
            Fail: Shapes do not fit, or the run was terminated.
            RuntimeException: It failed otherwise.
        """
        found = self._quickly(output_names, input_feed, run_options)
        if found is None:
            found = self._traced(self._wanted(output_names), self._given(input_feed, run_options), run_options)
        return found

    def _quickly(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], options: RunOptions | None
    ) -> list[Any] | None:
        """Return all results of *feeds* that are just like those of the run before; else ``None``."""
        if options is not None or self._trace is not None or (output_names and output_names != self._names):
            return None
        try:
            found = self._model.run_quickly(feeds)
        except ClgraphError:
            with statuses():
                raise
        return None if found is None else [found[name] for name in self._names]

    def _traced(self, names: Sequence[str], given: Mapping[str, Any], options: RunOptions | None) -> list[Any]:
        """Return the results in the order of *names*, and note in the trace, if there is one, what takes how long."""
        start = time.monotonic_ns()
        results = self._run(names, given, options)
        if self._trace is not None:
            self._trace.note("model_run", "Session", start)
            self._trace.profile(self._model_for(given), given, self._assigned())
        return [results[name] for name in names]

    def _given(self, feeds: Mapping[str, Any], options: RunOptions | None) -> dict[str, Any]:
        """Return *feeds* and those of adapters as the model takes them."""
        _check_options(options)
        if options is not None and options.adapted:
            self._feeds.check_names(feeds)
            feeds = {**feeds, **options.adapted}
        return self._feeds.taken(feeds)

    def _wanted(self, output_names: Sequence[str] | None) -> list[str]:
        if not output_names:
            return self._names
        if isinstance(output_names, str):
            raise MismatchError(f"output names are a list, as [{output_names!r}]")
        if isinstance(output_names, Mapping):
            raise MismatchError("output names are a list, not a dictionary")
        names = list(output_names)
        for name in names:
            if not isinstance(name, str):
                raise MismatchError(f"output names are texts, not {name!r}")
            if name not in self._names:
                raise InvalidArgument(f"Invalid output name:{name}")
        return names

    def _run(
        self,
        names: Sequence[str],
        given: Mapping[str, Any],
        options: RunOptions | None,
        places: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the results by name, those with *places* in them."""
        cancellation: Cancellation | None = None if options is None else options.cancellation
        outputs: Any = None if names == self._names else list(dict.fromkeys(names))
        if places:
            outputs = {name: places.get(name) for name in names}
        with statuses():
            return self._model_for(given).run(given, outputs=outputs, cancellation=cancellation)

    def _model_for(self, feeds: Mapping[str, Any]) -> Model:
        """Return the model, or one that is fed what has decided how it was compiled, or axes in place of a scalar."""
        deciding = frozenset(feeds.keys() & self._model.topology.deciding) if self._overridable else frozenset()
        others = deciding, self._feeds.ranked(feeds)
        if not any(others):
            return self._model
        if others not in self._others:
            with statuses(loading=True):
                fed, ranked = (tuple(sorted(names)) for names in others)
                self._others[others] = made(compilation_of(self._source, self._options, self._provided, fed, ranked))
        return self._others[others]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Start a run; *callback* is told its results, *user_data* and an error's text, by a thread of the session.

        Raises:
            InputError: An input is missing.
            RefusedError: A feed is nothing that an array can be made of. Other errors go to the callback.
            MismatchError: An argument is of another type.
        """
        refused, names, given = "", self._names, dict[str, Any]()
        try:
            names, given = self._wanted(output_names), self._given(input_feed, run_options)
        except StatusError as error:
            refused = error.message
        if not callable(callback):
            raise MismatchError(f"callback is a function, not {type(callback).__name__}")

        def call() -> None:
            results, problem = list[Any](), refused
            try:
                if not refused:
                    results = self._quickly(names, given, run_options) or self._traced(names, given, run_options)
            except ClgraphError as error:
                problem = error.message if isinstance(error, StatusError) else str(error)
            callback(results, user_data, problem)

        self._queue.submit(call)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Return the results of :meth:`run` as values."""
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Any = None,
    ) -> None:
        """Run with values in order; the results are written to *fetches*, or appended where there are none.

        Raises:
            InvalidArgument: There are no names, more or fewer values than names, or values that the results do not fit.
            Fail, RuntimeException: As :meth:`run`.
        """
        if not fetch_names:
            raise InvalidArgument("At least one output should be requested.")
        names, given = self._wanted(fetch_names), dict(zip(feed_names, feeds, strict=True))
        if not fetches:
            fetches += self.run_with_ort_values(names, given, run_options)
            return
        if len(fetches) != len(names):
            raise InvalidArgument(f"fetch names has {len(names)} elements, but fetch has {len(fetches)} elements.")
        places = {name: value.numpy() for name, value in zip(names, fetches, strict=True)}
        self._run(names, self._given(given, run_options), run_options, places)

    def io_binding(self) -> IOBinding:
        """Return a binding of this session's inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with what is bound, which then has the results.

        Raises:
            InputError: The binding is another session's (a ``ValueError``).
            RefusedError: The run failed, for whatever reason (a ``RuntimeError``, as ONNX Runtime's).
        """
        if iobinding.session is not self:
            raise InputError("IOBinding must be used with the session that created it.")
        with plainly("Error in execution"):
            if not iobinding.places:
                raise InvalidArgument("At least one output should be requested.")
            names = self._wanted(list(iobinding.places))
            places = {name: v.numpy() for name, v in iobinding.places.items() if v is not None}
            results = self._run(names, self._given(iobinding.inputs, run_options), run_options, places)
        iobinding.keep([iobinding.places.get(name) or OrtValue(results[name]) for name in names])

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return a value of zeros."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def get_profiling_start_time_ns(self) -> int:
        """Return when the session was made, as ``time.monotonic_ns`` counts."""
        return self._opened

    def end_profiling(self) -> str:
        """Write the trace, and return the name of its file; empty where nothing was to be profiled.

        A session that ends without this call writes it then.
        """
        self._trace, closing, self._closing = None, self._closing, None
        return "" if closing is None else str(closing())


def _check_options(options: object) -> None:
    if options is not None and not isinstance(options, RunOptions):
        raise MismatchError(f"run_options are RunOptions, not {type(options).__name__}")
