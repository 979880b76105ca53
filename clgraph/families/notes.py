"""The note of a program that says which family it is bound to, or why to none: what reports look for."""

NOTE = "family"
BOUND = "bound in "
"""How it begins where the program is bound to one."""
