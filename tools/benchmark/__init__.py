"""What ``tools/bench`` is made of: models, runtimes, measuring, comparing layer by layer, cold starts, reports."""
