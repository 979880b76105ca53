"""Descriptors of tile functions: one Python class, the C struct generated from it, and its bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from operator import itemgetter
from typing import Annotated, Any, ClassVar, dataclass_transform, get_args

from clgraph.core.frozen import frozen
from clgraph.core.registry import Registry
from clgraph.handlers import pass_on
from clgraph.selector.libraries import CORE


@frozen
class Ref:
    """A place in a tensor: its role (``in0``, ``out0``, ``scratch0``) and an offset in bytes from its first byte."""

    role: str
    offset: int = 0


NULL = Ref("null")
"""A pointer to nothing: ``CLGRAPH_NULL`` (-1) in the table."""

Int = Annotated[int, "int", "i"]
Long = Annotated[int, "long", "q"]
Float = Annotated[float, "float", "f"]
Pointer = Annotated[Ref, "long", "q"]
"""In C a ``long``: bank number in the top 8 bits, byte offset below; ``AT(type, banks, p)`` makes it an address."""

_HINTS = {"Int": Int, "Long": Long, "Float": Float, "Pointer": Pointer}

Places = Mapping[str, int]
"""Where tensors begin, by role: bank << 56 | byte offset; -1 for ``null``."""


class Descriptor:
    """Base of descriptor classes: frozen values with fields of ``Int``, ``Long``, ``Float`` and ``Pointer``.

    In C 8-byte fields (``Long``, ``Pointer``) stand before the 4-byte ones, so that C and Python agree without padding.
    Fields that many have come from classes decorated with :func:`fields`, in front of the class's own.
    Instances are made like those of dataclasses, but no code is generated for each class: it takes a millisecond.

    Attributes:
        function: The tile function, found in the kernel file of the same name.
        made_of: The tile function of whose file it is made, its own unless ``defines`` make it another one.
        defines: Macros, by name.
        library: What it is declared for: a library, or a part that several hold (``libraries.SHARED``).
        micros: The families of micro-kernels it calls.
        any_alignment: Its plain inputs may start at any float, and it reads nothing behind their last one: a caller's
            array can be read in place. It takes their elements alone or by ``vload``, so that constants may start
            at any byte where the machine's vectors may.
        c_fields: Name, C type and code for ``struct`` of each field.
        c_names: Their names, in order.
        c_layout: All of them as one struct, which ends at a multiple of 8.
        c_longs: How many fields of 8 bytes it begins with.
        c_values: Returns the fields in their order.
    """

    function: ClassVar[str] = ""
    made_of: ClassVar[str] = ""
    defines: ClassVar[Mapping[str, int]] = {}
    library: ClassVar[str] = CORE
    micros: ClassVar[tuple[str, ...]] = ()
    any_alignment: ClassVar[bool] = False
    c_fields: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    c_names: ClassVar[dict[str, None]] = {}
    c_layout: ClassVar[struct.Struct] = struct.Struct("<")
    c_longs: ClassVar[int] = 0
    c_values: ClassVar[itemgetter[str]]

    __slots__ = ("_row",)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Set every field, by position or name; raises ``TypeError`` unless each is given once."""
        given = dict(zip(self.c_names, values, strict=False)) | named if values else named
        try:
            # As many as there are, and none of those missing: half of the time that comparing the names takes.
            row = self.c_values(given)
        except KeyError as error:
            pass_on(error)
            row = ()
        if len(values) + len(named) != len(self.c_names) or not row:
            raise TypeError(f"{type(self).__name__} takes {', '.join(self.c_names)}, once each")
        _set_row(self, row)

    def __getattr__(self, name: str) -> Any:
        """Return the field *name*."""
        if name not in self.c_names:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return self.by_name()[name]

    def by_name(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(zip(self.c_names, self._row, strict=True))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.c_names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.by_name().items())})"

    def reads_in_place(self, slot: int) -> bool:
        """Whether it reads input *slot* where a caller has it: it can (``any_alignment``), and takes no longer."""
        return self.any_alignment

    @classmethod
    def c_struct(cls) -> str:
        """Return the C definition ``typedef struct { ... } <function>_desc;``."""
        lines = [f"  {c_type} {name};" for name, c_type, _ in cls.c_fields]
        return "\n".join(["typedef struct {", *lines, f"}} {cls.function}_desc;"])

    @classmethod
    def size(cls) -> int:
        """Return the bytes of the struct, a multiple of 8."""
        return cls.c_layout.size

    @property
    def nbytes(self) -> int:
        """Bytes of the struct, also where it is out of a file and its fields are not known."""
        return self.c_layout.size

    def to_bytes(self, places: Places) -> bytes:
        """Return the struct's bytes with every pointer resolved."""
        row, longs = self._row, self.c_longs
        return self.c_layout.pack(
            *[places[v.role] + v.offset if type(v) is Ref else v for v in row[:longs]], *row[longs:]
        )


_set_row: Callable[[Descriptor, tuple[Any, ...]], None] = vars(Descriptor)["_row"].__set__
DESCRIPTORS: Registry[str, type[Descriptor]] = Registry("tile function", package="clgraph.implementations")


@dataclass_transform(frozen_default=True)
def fields(cls: type[Any]) -> type[Any]:
    """Class decorator: fields of a descriptor that several have."""
    return cls


@dataclass_transform(frozen_default=True)
def descriptor(
    function: str,
    *,
    library: str = CORE,
    micros: tuple[str, ...] = (),
    any_alignment: bool = False,
    made_of: str = "",
    **defines: int,
) -> Callable[[type[Any]], type[Any]]:
    """Class decorator: make a subclass of :class:`Descriptor` the descriptor of tile function *function*.

    Args:
        made_of: The tile function that it is with *defines*. A library has one of them, because helpers of the file
            keep their names: where both are declared for it this one, which has to do what the other does, too.

    Raises:
        TypeError: A field has another type, or a default.
    """

    def record(cls: type[Any]) -> type[Any]:
        cls.function, cls.library, cls.micros, cls.any_alignment = function, library, micros, any_alignment
        cls.made_of, cls.defines = made_of or function, defines
        parts = [base for base in reversed(cls.__mro__) if base not in (object, Descriptor)]
        named = {name: hint for part in parts for name, hint in vars(part).get("__annotations__", {}).items()}
        found = [_c_field(cls, *item) for item in named.items()]
        cls.c_fields = tuple(sorted(found, key=lambda field: field[2] != "q"))
        cls.c_names = dict.fromkeys(name for name, _, _ in cls.c_fields)
        codes = "<" + "".join(code for _, _, code in cls.c_fields)
        cls.c_layout, cls.c_longs = struct.Struct(f"{codes}{-struct.calcsize(codes) % 8}x"), codes.count("q")
        cls.c_values = itemgetter(*cls.c_names)
        DESCRIPTORS.register(function, cls)
        return cls

    return record


def _c_field(cls: type[Any], name: str, hint: Any) -> tuple[str, str, str]:
    """Return name, C type and code of a field; its type is an object, or its name in modules that keep it as text."""
    known = _HINTS.get(hint) if isinstance(hint, str) else hint
    if known not in _HINTS.values() or name in vars(cls):
        raise TypeError(f"{cls.__name__}.{name}: fields are {', '.join(_HINTS)} without a default, not {hint}")
    _, c_type, code = get_args(known)
    return name, c_type, code


@frozen
class PostStep:
    """One operation of a tile's post-operation list, on a value at (image n, block c, row y, pixel x, lane l).

    Attributes:
        code: What to do, from ``POST_CODES``.
        a, b: Parameters of a unary operation.
        operand: The other input of a binary operation, ``NULL`` for a unary one.
        pitches: Floats from one n, c-block, y, x, lane of the operand to the next; 0 where it is broadcast.
    """

    code: int
    a: float = 0.0
    b: float = 0.0
    operand: Ref = NULL
    pitches: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<q6i2f")
    """That of ``post_step`` in ``tile.clh``."""

    def to_bytes(self, places: Places) -> bytes:
        """Return the 40 bytes of the C struct."""
        operand = self.operand
        return self.LAYOUT.pack(places[operand.role] + operand.offset, self.code, *self.pitches, self.a, self.b)
