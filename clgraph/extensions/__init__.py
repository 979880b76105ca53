"""User extensions: custom operators by a decorator."""
