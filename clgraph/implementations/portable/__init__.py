"""Implementations for devices of any kind: tiles in local memory, which a CPU runs as loops over ordinary memory."""
