"""Micro-kernels: small functions that tile functions call, compiled several times with other constants.

The file of one holds one function named like the file, ``static void`` or ``static int``, every constant a macro with a
default:

    // cl_kernels/convolution/micro_fsv16.cl
    #include "tile.clh"
    #ifndef NB
      #define NB 2
    #endif
    NOINLINE static void micro_fsv16(__global const float* ip, __global float* op, const int pitch) { ... NB ... }
    #ifndef CLGRAPH_LIBRARY
    __kernel void micro_fsv16_alone(...) { micro_fsv16(...); }
    #endif

Instances of it (also of several files, if their parameters agree) form a *family*, declared beside the operator:

    MICROS = micro_family("micro", {16: [Micro.of("convolution/micro_fsv16.cl", NB=2, UR=u) for u in range(1, 15)],
                                    8: [Micro.of("convolution/micro_fsv16.cl", NB=1, UR=u) for u in range(1, 7)]})

and a driver calls ``micro(id, ip, op, pitch)``: a switch over the instances, generated. The id is the instance's
position in the list of the device's SIMD width, ``MICROS.id(simd, Micro.of(...))``, so that neighbours in the list have
neighbouring ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered_with
from clgraph.core.registry import Registry
from clgraph.errors import RegistrationError


@frozen
class Micro:
    """One instance of a micro-kernel: the file, whose stem is the function's name, and its macros."""

    file: str
    defines: tuple[tuple[str, int | str], ...] = ()

    @staticmethod
    def of(file: str, **defines: int | str) -> Micro:
        """Return the instance of *file* with these macros."""
        return Micro(file, tuple(sorted(defines.items())))

    @property
    def entry(self) -> str:
        """Name of the function in the file."""
        return PurePosixPath(self.file).stem


@frozen
class MicroFamily(Remembering):
    """Micro-kernels with equal parameters, called as ``name(id, ...)``; the instances by SIMD width."""

    name: str
    instances: Mapping[int, tuple[Micro, ...]]

    def of(self, simd: int) -> tuple[Micro, ...]:
        """Return the instances for a device: of the widest list that is not wider than *simd*, else the narrowest."""
        fitting = [width for width in self.instances if width <= simd]
        return self.instances[max(fitting) if fitting else min(self.instances)]

    def id(self, simd: int, micro: Micro) -> int:
        """Return the id to call *micro* with; raises ``RegistrationError`` when it is no instance."""
        found = self._ids(simd).get(micro)
        if found is None:
            raise RegistrationError(f"micro-kernel family {self.name!r} has no instance {micro} for SIMD width {simd}")
        return found

    @remembered_with
    def _ids(self, simd: int) -> dict[Micro, int]:
        return {micro: number for number, micro in enumerate(self.of(simd))}


FAMILIES: Registry[str, MicroFamily] = Registry("micro-kernel family", package="clgraph.implementations")


def micro_family(name: str, instances: Mapping[int, Sequence[Micro]]) -> MicroFamily:
    """Declare the family that drivers call as ``name(id, ...)``, its instances by SIMD width (16, 8, 4)."""
    if not instances or any(not of or len(set(of)) < len(of) for of in instances.values()):
        raise RegistrationError(f"micro-kernel family {name!r} needs instances, each once, for some SIMD width")
    family = MicroFamily(name, {width: tuple(of) for width, of in instances.items()})
    return FAMILIES.register(name, family)
