"""The public model: its programs by input shapes, its tensors, what it reports, and models that run in stages."""
