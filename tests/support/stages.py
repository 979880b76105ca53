"""How often a model with stages runs until it has settled."""

from clgraph.model.stages.host_plan import PLANNED
from clgraph.model.stages.settled import ALIKE

ENOUGH = PLANNED + 2 * ALIKE
"""Runs until plans are made, and joined in bodies and around them."""
