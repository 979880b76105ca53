"""Small models of many makers, compared with ONNX Runtime: results, and the latency of one run."""
