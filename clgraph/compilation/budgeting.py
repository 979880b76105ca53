"""Placement within memory budgets: plans a program, measures its memory, and partitions it anew if it exceeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from clgraph.errors import MemoryLimitError
from clgraph.graph.program import Program
from clgraph.network.memory_need import MemoryNeed, memory_needs, spelled, spelled_up
from clgraph.passes.budgets import Budgets
from clgraph.selector.query import DeviceInfo

T = TypeVar("T")

TRIALS = 8
"""How often a program is planned at most."""
FULL = 0.9
"""A device with so much of its budget is full: a further trial costs more than it may gain."""
NOTE = "placement_budget"
"""The note of a program that says what each device takes of its budget."""


def within_budgets(
    plan: Callable[[Budgets], tuple[Program, T]], limits: Mapping[str, int], devices: Mapping[str, DeviceInfo]
) -> tuple[Program, T]:
    """Return what *plan* makes where each device takes at most what *limits* say, the first ones as much as they can.

    Raises:
        MemoryLimitError: What has to run on a device takes more than its budget.
    """
    aims, best, most = dict(limits), None, tuple[int, ...]()
    seen: set[tuple[int, ...]] = set()
    for _ in range(TRIALS):
        budgets = Budgets(aims)
        made = plan(budgets)
        needs = {need.placement: need for need in memory_needs(made[0], devices)}
        taken = {name: needs[name].total if name in needs else 0 for name in limits}
        over = [name for name in limits if taken[name] > limits[name]]
        if not over and (best is None or tuple(taken.values()) > most):
            best, most = made, tuple(taken.values())
            _note(made[0], needs, limits)
        again = tuple(budgets.taken.get(name, 0) for name in limits)
        slack = [name for name in limits if name in budgets.passed and taken[name] < FULL * limits[name]]
        if again in seen or not (slack or over):
            break
        seen.add(again)
        aims = {name: _aim(name, aim, budgets, taken[name], limits[name]) for name, aim in aims.items()}
    if best is None:
        raise _refused(needs[over[0]], limits)
    return best


def _aim(name: str, aim: int, budgets: Budgets, taken: int, limit: int) -> int:
    """Return what a device is filled to next whose nodes, filled to *aim*, have *taken* that much of *limit*."""
    counted = budgets.taken.get(name, 0)
    by_share = int(counted * limit / taken) if taken else 0
    if taken > limit:
        return min(by_share, counted - 1)
    if taken < FULL * limit and name in budgets.passed:
        return max(by_share, budgets.passed[name])
    return aim


def _note(program: Program, needs: Mapping[str, MemoryNeed], limits: Mapping[str, int]) -> None:
    lines = [f"{name} takes nothing of {spelled(limits[name])}" for name in limits if name not in needs]
    for name, need in needs.items():
        nodes = [node.name for node in program if node.placement == name]
        of = f" of {spelled(limits[name])}" if name in limits else ""
        lines.append(f"{name} takes {spelled(need.total)}{of}: {len(nodes)} nodes, {nodes[0]} to {nodes[-1]}")
    program.notes[NOTE] = "\n".join(lines)


def _refused(need: MemoryNeed, limits: Mapping[str, int]) -> MemoryLimitError:
    name = need.placement
    return MemoryLimitError(
        f"what has to run on {name} takes {need}, and its placement_budget allows {spelled(limits[name])}",
        [
            f"--placement-budget {name}='{spelled_up(need.total)}' (in Python, config={{'placement_budget': ...}})",
            f"a further device behind {name} (--device), which takes the rest",
        ],
        limits[name],
        name,
    )
