"""Operators of ai.onnx.ml, on tables, labels and maps, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import ClgraphError, InputError, ModelError, ShapeError, UnsupportedError

TYPES = {"f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "q": TensorProto.INT64, "i": TensorProto.INT32}
TEXT, INT, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT

X = np.array([[1.5, -0.5, 0], [0, 0, 0], [-2, 3, 0.25], [0.5, np.nan, 1e-8]], np.float32)
NUMBERS = np.nan_to_num(X)
WHOLE = np.array([[1, -2, 3], [0, 5, -6]])
WORDS = np.array([["b", "a"], ["?", "c"]], object)


def model_of(
    operator: str, feeds: dict[str, Any], outputs: dict[str, Any], inputs: dict[str, Any], **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node; *outputs* and *inputs* are types of what is not a tensor of a feed's type."""

    def declared(name: str, given: Any) -> onnx.ValueInfoProto:
        if isinstance(given, onnx.TypeProto):
            return helper.make_value_info(name, given)
        return helper.make_tensor_value_info(name, given, None)

    def fed(name: str, given: Any) -> onnx.ValueInfoProto:
        if name in inputs:
            return declared(name, inputs[name])
        code = TEXT if given.dtype == object else TYPES[given.dtype.char.replace("l", "q")]
        return helper.make_tensor_value_info(name, code, [None] * given.ndim)

    version = attributes.pop("version", 3)
    node = helper.make_node(operator, list(feeds), list(outputs), domain="ai.onnx.ml", name="node", **attributes)
    ins = [fed(name, given) for name, given in feeds.items()]
    graph = helper.make_graph([node], "g", ins, [declared(name, of) for name, of in outputs.items()])
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def assert_same(found: Any, wanted: Any, bound: float) -> None:
    """Compare results; numbers within *bound*, relative or absolute."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            assert_same(*pair, bound)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        assert_same(np.array(list(found.values())), np.array(list(wanted.values())), bound)
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype == object:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


def check(
    operator: str,
    feeds: dict[str, Any],
    outputs: dict[str, Any],
    bound: float = 2.0**-20,
    inputs: dict[str, Any] | None = None,
    target: str = "host",
    **attributes: Any,
) -> None:
    """Compare a node with ONNX Runtime's; sums of tens of terms near 1 have an error of some ulps of 2^-23 each."""
    import onnxruntime

    model = model_of(operator, feeds, outputs, inputs or {}, **attributes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    wanted = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    found = list(clgraph.compile(model, target).run(feeds).values())
    assert_same(found, list(wanted), bound)


def test_columns_are_scaled_normalised_imputed_and_picked() -> None:
    check("Scaler", {"x": NUMBERS}, {"y": FLOAT}, offset=[0.5, 1, 0], scale=[2.0, -1, 0.5])
    check("Scaler", {"x": WHOLE}, {"y": FLOAT}, offset=[0.5], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        check("Normalizer", {"x": np.abs(NUMBERS)}, {"y": FLOAT}, norm=norm)
        check("Normalizer", {"x": NUMBERS}, {"y": FLOAT}, norm=norm)
    check("Imputer", {"x": X}, {"y": FLOAT}, imputed_value_floats=[1.0, 2, 3], replaced_value_float=float("nan"))
    check("Imputer", {"x": X}, {"y": FLOAT}, imputed_value_floats=[7.0], replaced_value_float=0.0)
    check("Imputer", {"x": WHOLE}, {"y": INT}, imputed_value_int64s=[7, 8, 9], replaced_value_int64=-6)
    check("Binarizer", {"x": NUMBERS}, {"y": FLOAT}, threshold=0.25)
    check("ArrayFeatureExtractor", {"x": NUMBERS, "at": np.array([2, 0])}, {"y": FLOAT})
    check("ArrayFeatureExtractor", {"x": WORDS, "at": np.array([1])}, {"y": TEXT})
    check("FeatureVectorizer", {"a": NUMBERS, "b": NUMBERS[:, :1]}, {"y": FLOAT}, inputdimensions=[3, 1])
    check("OneHotEncoder", {"x": WHOLE}, {"y": FLOAT}, cats_int64s=[3, 1, 5])
    check("OneHotEncoder", {"x": WORDS}, {"y": FLOAT}, cats_strings=["a", "b"])
    check("OneHotEncoder", {"x": NUMBERS}, {"y": FLOAT}, cats_int64s=[0, 1, -2])


@pytest.mark.parametrize("at", [-1, 3])
def test_known_columns_outside_of_a_table_are_refused(at: int) -> None:
    model = model_of("ArrayFeatureExtractor", {"x": NUMBERS, "at": np.array([at])}, {"y": FLOAT}, {})
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.array([0, at]), "at"))
    with pytest.raises(ShapeError, match=rf"column {at} is picked of x \[4, 3\], whose columns are 0 to 2"):
        clgraph.compile(model, "host").run({"x": NUMBERS})


def test_labels_are_mapped_from_every_type_to_every_other() -> None:
    keys = {"strings": ["a", "b", "b"], "int64s": [1, -2, 1], "floats": [1.5, float("nan"), 0.0]}
    values = {"strings": ["x", "y", "z"], "int64s": [5, 6, 7], "floats": [0.5, 2.5, -1.0]}
    codes = {"strings": TEXT, "int64s": INT, "floats": FLOAT}
    feeds = {"strings": WORDS, "int64s": WHOLE, "floats": X}
    for of, given in keys.items():
        for to, held in values.items():
            for v in (2, 4):  # the first does not know NaN among keys
                table = {f"keys_{of}": given, f"values_{to}": held}
                check("LabelEncoder", {"x": feeds[of]}, {"y": codes[to]}, version=v, **table)
    check("LabelEncoder", {"x": WORDS}, {"y": INT}, version=1, classes_strings=["a", "b"], default_int64=9)
    check("LabelEncoder", {"x": WHOLE}, {"y": TEXT}, version=1, classes_strings=["a", "b"], default_string="none")
    table = {"cats_strings": ["a", "b"], "cats_int64s": [3, -2]}
    check("CategoryMapper", {"x": WORDS}, {"y": INT}, **table)
    check("CategoryMapper", {"x": WHOLE}, {"y": TEXT}, **table)
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([1, 3])),
        "values_tensor": numpy_helper.from_array(np.array([0.5, 2.5])),
        "default_tensor": numpy_helper.from_array(np.array([-1.0])),
    }
    tensors |= {"default_float": -0.0, "default_int64": -1}  # as spox writes them beside it
    check("LabelEncoder", {"x": WHOLE}, {"y": TensorProto.DOUBLE}, version=4, **tensors)


def map_type(key: int, held: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(held, None))


def test_maps_are_taken_as_dictionaries_and_returned_as_such() -> None:
    words, numbers = map_type(TEXT, FLOAT), map_type(INT, FLOAT)
    vocabulary = {"string_vocabulary": ["a", "c", "b"]}
    check("DictVectorizer", {"x": {"b": 1.5, "a": -2.0, "z": 9.0}}, {"y": FLOAT}, inputs={"x": words}, **vocabulary)
    check("DictVectorizer", {"x": {3: 1.5}}, {"y": FLOAT}, inputs={"x": numbers}, int64_vocabulary=[1, 3])
    for form, given in (("DENSE", {7: 1.5, 2: 0.5}), ("SPARSE", {3: 1.5, 0: 0.5})):
        for to, code in (("TO_FLOAT", FLOAT), ("TO_INT64", INT)):
            more = {"cast_to": to, "map_form": form, "max_map": 4}
            check("CastMap", {"x": given}, {"y": code}, inputs={"x": numbers}, **more)
    feeds = {"x": {1: "2.5", 0: "-1"}}
    texts = model_of("CastMap", feeds, {"y": FLOAT}, {"x": map_type(INT, TEXT)}, cast_to="TO_FLOAT")
    assert clgraph.compile(texts, "host").run(feeds)["y"].tolist() == [[-1, 2.5]], "ONNX Runtime takes no such map"
    for labels, key in (({"classlabels_strings": ["u", "v", "w"]}, TEXT), ({"classlabels_int64s": [9, 3, 5]}, INT)):
        check("ZipMap", {"x": NUMBERS}, {"y": helper.make_sequence_type_proto(map_type(key, FLOAT))}, **labels)


def test_maps_of_other_types_are_refused() -> None:
    feeds = {"x": {"a": 1.0}}
    model = model_of("DictVectorizer", feeds, {"y": FLOAT}, {"x": map_type(TEXT, FLOAT)}, string_vocabulary=["a"])
    compiled = clgraph.compile(model, "host")
    assert compiled.inputs[0].type == "map(string,tensor(float))"
    for given, match in (
        ([1.0], r"input 'x' is map\(string,tensor\(float\)\): give it as a dictionary, not as a list"),
        ({1: 1.0}, r"input 'x' is map\(string,tensor\(float\)\), and holds 1 \(int\)"),
        ({"a": "b"}, r"holds 'b' \(str\)"),
    ):
        with pytest.raises(InputError, match=match):
            compiled.run({"x": given})


TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def labels_of(count: int, kind: int, numbers: str = "classlabels_ints") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return labels as strings or integers, and the outputs of a classifier with them."""
    if kind:
        return {"classlabels_strings": [f"c{i}" for i in range(count)]}, {"label": TEXT, "y": FLOAT}
    return {numbers: [7 * i + 1 for i in range(count)]}, {"label": INT, "y": FLOAT}


def drawn(random: np.random.Generator, *shape: int) -> list[float]:
    return [float(v) for v in random.normal(size=shape).astype(np.float32).ravel()]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models_are_products(transform: str) -> None:
    random = np.random.default_rng(3)
    for targets in (1, 3):
        weights = {"coefficients": drawn(random, targets, 3), "intercepts": drawn(random, targets)}
        for x in (NUMBERS, NUMBERS[:, :2]):
            check("LinearRegressor", {"x": x}, {"y": FLOAT}, targets=targets, post_transform=transform, **weights)
    for classes, products in ((2, 1), (2, 2), (4, 4)):
        weights = {"coefficients": drawn(random, products, 3), "intercepts": drawn(random, products)}
        labels, outputs = labels_of(classes, products % 2)
        for x in (NUMBERS, WHOLE, NUMBERS[:, :2]):
            check("LinearClassifier", {"x": x}, outputs, post_transform=transform, **labels, **weights)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_support_vectors_vote_or_add_up(transform: str) -> None:
    random = np.random.default_rng(4)
    common: dict[str, Any] = {"kernel_params": [0.5, 0.25, 2.0], "post_transform": transform}
    for number, kernel in enumerate(("LINEAR", "POLY", "RBF", "SIGMOID")):
        vectors = {"support_vectors": drawn(random, 4, 3), "n_supports": 4, "coefficients": drawn(random, 4)}
        more = {"kernel_type": kernel, "rho": [0.3], "one_class": number % 2}
        # Products of three terms and a sum of four, with values below 20.
        check("SVMRegressor", {"x": NUMBERS}, {"y": FLOAT}, 2.0**-16, **common, **vectors, **more)
        for classes in (2, 3):
            pairs, labels = classes * (classes - 1) // 2, labels_of(classes, number % 2)
            held = [2, 1, 3][:classes]
            vectors = {
                "support_vectors": drawn(random, sum(held), 3),
                "vectors_per_class": held,
                "coefficients": drawn(random, classes - 1, sum(held)),
                "rho": drawn(random, pairs),
                "kernel_type": kernel,
            }
            check("SVMClassifier", {"x": NUMBERS}, labels[1], 2.0**-16, **common, **vectors, **labels[0])
            probabilities = {"prob_a": [-1.5] * pairs, "prob_b": drawn(random, pairs)}
            check(
                "SVMClassifier", {"x": NUMBERS}, labels[1], 2.0**-12, **common, **vectors, **probabilities, **labels[0]
            )
    labels = labels_of(3, 0)
    products = {"coefficients": drawn(random, 3, 3), "rho": [0.25], "kernel_type": "LINEAR"}
    check("SVMClassifier", {"x": NUMBERS}, labels[1], **common, **products, **labels[0])


def test_the_one_number_of_a_row_is_not_transformed() -> None:
    random = np.random.default_rng(4)
    vectors = {"support_vectors": drawn(random, 4, 3), "n_supports": 4, "coefficients": drawn(random, 4)}
    more = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.3], "post_transform": "PROBIT"}
    check("SVMRegressor", {"x": NUMBERS}, {"y": FLOAT}, 2.0**-16, **vectors, **more)


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(
    random: np.random.Generator, trees: int, modes: tuple[str, ...]
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Return the attributes of complete trees of depth 2 over 3 features, and tree and node of each leaf."""
    rows = []
    for tree in range(trees):
        for node in range(7):
            inner = node < 3
            row = (tree, node, int(random.integers(3)), str(random.choice(modes)) if inner else "LEAF")
            value = float(np.float32(random.choice([-0.5, 0, 0.5, 1.5])))
            rows.append(
                (*row, value, 2 * node + 1 if inner else 0, 2 * node + 2 if inner else 0, int(random.integers(2)))
            )
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    columns = zip(*rows, strict=True)
    made = dict(
        zip((*(f"nodes_{n}" for n in names), "nodes_missing_value_tracks_true"), map(list, columns), strict=True)
    )
    return made, [(row[0], row[1]) for row in rows if row[3] == "LEAF"]


@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_rows_go_down_trees_to_the_same_leaves(number: int) -> None:
    compare_trees(number, "host")


@pytest.mark.opencl
@pytest.mark.parametrize("number", range(len(TRANSFORMS)))
def test_rows_go_down_trees_to_the_same_leaves_on_devices(number: int, device: str) -> None:
    compare_trees(number, device)


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu"])
def test_trees_run_on_cpus_and_what_reads_integers_on_the_host(device_class: str, device: str) -> None:
    nodes, leaves = forest(np.random.default_rng(0), 1, MODES)
    held = {"target_treeids": [0] * 4, "target_nodeids": [n for _, n in leaves], "target_ids": [0] * 4}
    chosen, whole = "chosen      tree_ensemble.rows", np.nan_to_num(X).astype(np.int64)
    for x, shown in ((X, chosen), (X.astype(np.float64), chosen), (whole, "placement   host")):
        model = model_of("TreeEnsembleRegressor", {"x": x}, {"y": FLOAT}, {}, **nodes, **held, target_weights=[1.0] * 4)
        compiled = clgraph.compile(model, device, config={"device_class": device_class})
        assert (compiled.run({"x": x})["y"] == 1).all()
        assert shown in str(compiled.explain())
        assert compiled.run({"x": x[:0]})["y"].shape == (0, 1)


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu"])
def test_trees_behind_texts_are_compiled_though_they_are_small(device_class: str, device: str) -> None:
    nodes, leaves = forest(np.random.default_rng(0), 1, MODES[:1])
    held = {"target_treeids": [0] * 4, "target_nodeids": [n for _, n in leaves], "target_ids": [0] * 4}
    names = {"keys_strings": ["a", "b"], "values_floats": [0.0, 1.0], "default_float": 0.5}
    made = [
        helper.make_node("LabelEncoder", ["x"], ["found"], domain="ai.onnx.ml", **names),
        helper.make_node(
            "TreeEnsembleRegressor", ["found"], ["y"], domain="ai.onnx.ml", **nodes, **held, target_weights=[1.0] * 4
        ),
    ]
    inputs = [helper.make_tensor_value_info("x", TEXT, ["n", 3])]
    outputs = [helper.make_tensor_value_info("y", FLOAT, None)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    source = helper.make_model(helper.make_graph(made, "g", inputs, outputs), opset_imports=opsets)
    compiled = clgraph.compile(source, device, config={"device_class": device_class})
    for rows in (1, 4):
        assert (compiled.run({"x": np.full((rows, 3), "b", object)})["y"] == np.ones((rows, 1))).all()
    assert "tree_ensemble.rows" in str(compiled.explain())


def compare_trees(number: int, target: str) -> None:
    """Compare all kinds of trees and results with ONNX Runtime's, under a transform of ``TRANSFORMS``."""
    random, transform = np.random.default_rng(number), TRANSFORMS[number]
    modes = (MODES[:1], MODES[1:2], MODES, MODES[2:4])[number]
    nodes, leaves = forest(random, 3, modes)
    # Floats with NaN, and doubles; sums of three scores and a base.
    for x in (X, X.astype(np.float64)):
        for targets, aggregate in ((1, "SUM"), (3, "AVERAGE"), (2, "MIN"), (2, "MAX")):
            scores = [(t, n, k) for t, n in leaves for k in range(targets)]
            held = dict(
                zip(
                    ("target_treeids", "target_nodeids", "target_ids"),
                    map(list, zip(*scores, strict=True)),
                    strict=True,
                )
            )
            held |= {"target_weights": drawn(random, len(scores)), "n_targets": targets, "post_transform": transform}
            base = {"base_values": drawn(random, targets)} if aggregate != "MIN" else {}
            more = {"aggregate_function": aggregate, **base}
            check("TreeEnsembleRegressor", {"x": x}, {"y": FLOAT}, target=target, **nodes, **held, **more)
    for classes, scored in ((2, (0,)), (2, (1,)), (4, range(4))):
        for signed in (False, True):
            labels, outputs = labels_of(classes, number % 2, "classlabels_int64s")
            scores = [(t, n, k) for t, n in leaves for k in scored]
            held = dict(
                zip(("class_treeids", "class_nodeids", "class_ids"), map(list, zip(*scores, strict=True)), strict=True)
            )
            weights = drawn(random, len(scores))
            held["class_weights"] = weights if signed else [abs(v) / 3 for v in weights]
            if tuple(scored) == (0,) and signed:
                held["base_values"] = [0.25]
            for x in (X, WHOLE):
                more = {**labels, "post_transform": transform}
                check("TreeEnsembleClassifier", {"x": x}, outputs, target=target, **nodes, **held, **more)


def damaged(**changes: Any) -> onnx.ModelProto:
    nodes, leaves = forest(np.random.default_rng(0), 1, MODES)
    held = {"target_treeids": [0] * 4, "target_nodeids": [n for _, n in leaves], "target_ids": [0] * 4}
    attributes = {**nodes, **held, "target_weights": [1.0] * 4, **changes}
    return model_of("TreeEnsembleRegressor", {"x": NUMBERS}, {"y": FLOAT}, {}, **attributes)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"nodes_truenodeids": [9, 3, 5, 0, 0, 0, 0]}, ModelError, "leads to a node that is not one of its 7"),
        ({"nodes_featureids": [9] * 7}, ShapeError, "is not .rows, 10 features or more., which the trees read"),
        ({"nodes_truenodeids": [0, 3, 5, 0, 0, 0, 0]}, ModelError, "follows itself"),
        ({"nodes_modes": ["NAP"] * 7}, ModelError, "'NAP', which ONNX does not define"),
        ({"target_ids": [1] * 4}, ModelError, "not one of 1"),
        ({"target_nodeids": [9] * 4}, ModelError, "given to a node that no tree has"),
        ({"nodes_values": [1.0]}, ModelError, "the attributes of 7 nodes have"),
        ({"base_values": [1.0, 2.0]}, ModelError, "base_values has 2 numbers"),
        ({"post_transform": "NAP"}, UnsupportedError, "'NAP' is not one of NONE, SOFTMAX"),
    ],
)
def test_damaged_trees_are_refused_by_name(changes: dict[str, Any], error: type[ClgraphError], match: str) -> None:
    with pytest.raises(error, match=match):
        clgraph.compile(damaged(**changes), "host").run({"x": NUMBERS})


def test_nodes_are_found_by_whatever_numbers_they_have_and_wherever_they_stand() -> None:
    nodes, leaves = forest(np.random.default_rng(0), 3, MODES)
    trees, numbers = {0: 2**40, 1: -7, 2: 5}, {n: (n - 3) * 10**9 for n in range(7)}
    order = np.random.default_rng(1).permutation(len(nodes["nodes_treeids"]))
    renamed: dict[str, Any] = {name: [values[i] for i in order] for name, values in nodes.items()}
    renamed["nodes_treeids"] = [trees[t] for t in renamed["nodes_treeids"]]
    for name in ("nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids"):
        renamed[name] = [numbers[n] for n in renamed[name]]
    results = []
    for given, tree, number in ((nodes, {t: t for t in trees}, {n: n for n in numbers}), (renamed, trees, numbers)):
        held = {"target_treeids": [tree[t] for t, _ in leaves], "target_nodeids": [number[n] for _, n in leaves]}
        held |= {"target_ids": [0] * len(leaves), "target_weights": [2.0**i for i in range(len(leaves))]}
        model = model_of("TreeEnsembleRegressor", {"x": X}, {"y": FLOAT}, {}, **given, **held)
        results.append(clgraph.compile(model, "host").run({"x": X})["y"])
    np.testing.assert_array_equal(*results)


def test_trees_in_a_circle_end() -> None:
    circle = damaged(nodes_truenodeids=[1, 2, 1, 0, 0, 0, 0], nodes_falsenodeids=[1, 2, 1, 0, 0, 0, 0])
    with pytest.raises(ShapeError, match="in a circle"):
        clgraph.compile(circle, "host").run({"x": NUMBERS})


@pytest.mark.opencl
def test_tables_run_on_devices_where_they_are_arithmetic(device: str) -> None:
    attributes = {"coefficients": [1.0, 2, -1], "intercepts": [0.5], "targets": 1}
    compiled = clgraph.compile(model_of("LinearRegressor", {"x": NUMBERS}, {"y": FLOAT}, {}, **attributes), device)
    y = compiled.run({"x": NUMBERS})["y"]
    np.testing.assert_allclose(y[:, 0], NUMBERS @ [1, 2, -1] + 0.5, rtol=2**-20)
    explained = clgraph.compile(
        model_of("LinearRegressor", {"x": NUMBERS}, {"y": FLOAT}, {}, **attributes), device, {"x": (4, 3)}
    )
    assert {node.placement for node in explained.explain().nodes} == {device}
