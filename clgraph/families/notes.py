"""Notes of programs that are bound to families: what is said of that, and what members take over."""

NOTE = "family"
"""The note of a program that says which family it is bound to, or why to none: what reports look for."""
BOUND = "bound in "
"""How it begins where the program is bound to one."""
TAKEN = ("widen_floats", "keep_weights_packed", "partition", "use_integers", "compress_weights", "convert_precision")
"""The passes whose notes hold for every member as for the representative: about element types, weights and devices.

Sizes in them are the representative's.
"""
