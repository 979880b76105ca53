"""Passes of memory: sharing of buffers, liveness, placement in arenas."""
