"""The kernel of each node, and its weights."""
