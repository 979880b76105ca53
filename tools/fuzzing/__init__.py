"""What ``tools/fuzz`` is made of: models to start from, changes, what must hold, and the children that try it."""
