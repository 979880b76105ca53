"""User extensions: plugins, modules, custom operators by a decorator."""
