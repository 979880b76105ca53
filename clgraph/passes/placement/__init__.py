"""Which device runs a node."""
