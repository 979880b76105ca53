"""Options out of the environment, which is read here and nowhere else.

Option ``name`` is the variable ``CLGRAPH_<NAME>``; an argument of the API or a flag of the command line goes before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from clgraph.errors import OptionError
from clgraph.settings.options import Settings
from clgraph.settings.values import read_option

PREFIX = "CLGRAPH_"


def settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the options from *environment* (the process's when not given); empty variables count as unset.

    Raises:
        OptionError: A ``CLGRAPH_*`` variable is not an option, or its value cannot be read.
    """
    variables = os.environ if environment is None else environment
    known = {variable_of(f.name): f for f in fields(Settings)}
    found: dict[str, Any] = {}
    for variable in sorted(v for v in variables if v.startswith(PREFIX) and v not in FOREIGN):
        if variable not in known:
            raise OptionError(f"{variable} is not an option; the options are {', '.join(known)}")
        if variables[variable]:
            found[known[variable].name] = read_option(known[variable], variables[variable], variable)
    return Settings(**found)


FOREIGN = frozenset(f"CLGRAPH_TEST_{name}" for name in ("CLASS", "DEVICES", "ISA", "OPTIMISED"))
"""Variables with the prefix that are the test suite's, not options."""


def variable_of(option: str) -> str:
    """Return the name of the environment variable of *option*."""
    return PREFIX + option.upper()


def option_table() -> list[tuple[str, str, str]]:
    """Return (variable, default, description) of every option."""
    used = Settings()
    return [(variable_of(f.name), str(getattr(used, f.name)), f.metadata["doc"]) for f in fields(Settings)]
