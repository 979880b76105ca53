"""Importers as a whole: the schema versions they claim exist, and none in force is left out."""

from __future__ import annotations

from collections import defaultdict

import onnx

from clgraph.graph.importing import IMPORTERS

OLDEST, NEWEST = 1, 28
"""Opsets that the front end reads."""

FOREIGN = {
    *("SimplifiedLayerNormalization", "Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale"),
    "ScaledTanh",
}
"""What ONNX Runtime has in ONNX's domain, and ONNX has not, or no longer."""

EXPERIMENTS = {("MeanVarianceNormalization", 1), ("ThresholdedRelu", 1)}
"""Versions that ONNX has no longer."""

CLAIMED: dict[str, set[int]] = defaultdict(set)
for _domain, _op_type, _version in IMPORTERS:
    if _domain == "" and _op_type not in FOREIGN and (_op_type, _version) not in EXPERIMENTS:
        CLAIMED[_op_type].add(_version)

SCHEMAS: dict[str, dict[int, bool]] = defaultdict(dict)
for _schema in onnx.defs.get_all_schemas_with_history():
    if _schema.domain == "":
        SCHEMAS[_schema.name][_schema.since_version] = _schema.deprecated


def test_claimed_versions_are_those_of_the_schema():
    for op_type, claimed in sorted(CLAIMED.items()):
        newest = max(SCHEMAS[op_type])
        assert {v for v in claimed if v <= newest} <= set(SCHEMAS[op_type]), op_type


def test_no_version_in_force_is_left_out():
    for op_type, claimed in sorted(CLAIMED.items()):
        versions = SCHEMAS[op_type]
        in_force = {max(v for v in versions if v <= k) for k in range(OLDEST, NEWEST + 1) if min(versions) <= k}
        assert {v for v in in_force if not versions[v]} <= claimed, op_type


def test_all_of_onnx_ml_is_read_in_every_version():
    schemas = {(s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if s.domain == "ai.onnx.ml"}
    assert schemas == {(op_type, version) for domain, op_type, version in IMPORTERS if domain == "ai.onnx.ml"}
