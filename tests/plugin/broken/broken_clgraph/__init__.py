"""A plugin that registers half of what it wants to, and then fails."""

from clgraph.passes.targets.target import Target, register
from clgraph.selector.implementation import IMPLEMENTATIONS

register(Target("half", lambda info: True))
IMPLEMENTATIONS.register("convolution.ref", object)
