"""What compilers made of kernels, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.gpu_compilers.texts import Text


@dataclass(frozen=True)
class Compiled:
    """What became of one kernel.

    Attributes:
        registers: Of a work-item.
        spilled: Bytes stored and loaded for want of registers, wherever in the kernel.
        stack: Bytes of private memory of a work-item: arrays that are indexed at run time, and what is spilled.
        local: Bytes of local memory of a group.
        waves: Warps (waves, threads) that can run at once on what shares the registers, ``of`` so many.
        loop: Instructions of the loop with most products, by name; ``None`` where nothing can read them.
        error: What a compiler said against it; the figures are then 0.
    """

    text: Text
    registers: int = 0
    spilled: tuple[int, int] = (0, 0)
    stack: int = 0
    local: int = 0
    waves: int = 0
    of: int = 0
    loop: Counter[str] | None = field(default_factory=Counter)
    error: str = ""


HEAD = (
    "| kernel | variant | chosen | registers | spilled | stack | local | waves | main loop |\n"
    "|---|---|---|---:|---:|---:|---:|---:|---|"
)


def row(one: Compiled) -> str:
    """Return the row of a table below ``HEAD``."""
    cells = [one.text.name, one.text.variant, "yes" if one.text.chosen else ""]
    if one.error:
        cells += ["refused", "", "", "", "", ""]
    else:
        spilled = "/".join(map(str, one.spilled)) if any(one.spilled) else "0"
        cells += [str(one.registers), spilled, str(one.stack), str(one.local), f"{one.waves}/{one.of}", _loop(one)]
    return f"| {' | '.join(cells)} |"


def refusals(found: Sequence[Compiled]) -> str:
    """Return what was refused, and why."""
    return "".join(f"\n{one.text.name} {one.text.variant} is refused:\n{one.error}" for one in found if one.error)


def _loop(one: Compiled) -> str:
    if not one.loop:
        return ""
    several = ", ".join(f"{count} {name}" for name, count in one.loop.most_common() if name in _TOLD)
    return f"{one.loop.total()}: {several}"


_TOLD = {
    *("HMMA", "IMMA", "FFMA", "IDP", "LDSM", "LDGSTS", "LDG", "LDG.128", "LDS", "LDS.128", "STS", "STS.128"),
    *("STG", "LDL", "STL", "BAR", "IMAD", "IADD3", "LOP3", "MUFU"),
}
"""Instructions worth a word: arithmetic, memory, addresses."""
