"""What is said of the standard library's frozen dataclasses holds of ours, compared with them."""

from __future__ import annotations

import copy
import inspect
import pickle
import weakref
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

import clgraph.core.frozen as frozen_module
from clgraph.core.frozen import changed, fields_of, frozen, mutable


def _standard(cls: type[Any]) -> type[Any]:
    return dataclass(frozen=True, slots=True)(cls)


def _declare(make: Any) -> type[Any]:
    @make
    class Point:
        """A point."""

        counted: ClassVar[int] = 0
        x: int
        y: tuple[int, ...] = (1, 2)
        tags: list[str] = field(default_factory=list)
        note: str = field(default="n", compare=False, repr=False)
        norm: int = field(init=False)
        kept: int = field(default=4, init=False)
        held: list[int] = field(default_factory=list, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "norm", abs(self.x))

    return Point


@frozen
class Pair:
    first: int
    second: str = "b"


@frozen
class Triple(Pair):
    third: float = 0.5


@frozen
class Named:
    name: str

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return self.name


OURS, THEIRS = _declare(frozen), _declare(_standard)


@pytest.mark.parametrize(
    "arguments", [((3,), {}), ((-3, (5,)), {"note": "m"}), ((), {"x": 1, "tags": ["t"]}), ((1, (), ["a"], "k"), {})]
)
def test_an_instance_has_what_the_standard_one_has(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    positional, named = arguments
    cls = _declare(frozen)
    ours, theirs = cls(*positional, **named), THEIRS(*positional, **named)
    assert asdict(ours) == asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert ours == cls(*positional, **named)
    assert ours == replace(ours, note="other")
    assert (ours != replace(ours, x=100)) == (theirs != replace(theirs, x=100)) == True  # noqa: E712
    assert asdict(replace(ours, x=-9)) == asdict(replace(theirs, x=-9))
    assert ours != theirs


def test_equal_values_are_one_key_and_other_classes_another() -> None:
    assert {Pair(1): 1, Pair(1, "b"): 2} == {Pair(1): 2}
    assert hash(Pair(1)) == hash((1, "b"))
    assert Pair(1) != Triple(1)
    assert Pair(1) != (1, "b")


def test_each_has_a_list_of_its_own() -> None:
    first, second = OURS(1), OURS(1)
    first.tags.append("t")
    assert second.tags == []


@pytest.mark.parametrize("wrong", [(), (1, (), [], "n", "more")])
def test_wrong_arguments_are_a_type_error(wrong: tuple[Any, ...]) -> None:
    for cls in (OURS, THEIRS):
        with pytest.raises(TypeError):
            cls(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'norm'"):
        OURS(1, norm=2)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        OURS(1, x=2)


def test_nothing_is_changed_added_or_deleted() -> None:
    pair = Pair(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        pair.first = 2  # type: ignore[misc]  # what must not be
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
        del pair.first
    with pytest.raises(AttributeError):
        pair.more = 2  # type: ignore[attr-defined]  # what must not be
    assert not hasattr(pair, "__dict__")


def test_a_subclass_has_the_fields_of_both() -> None:
    assert repr(Triple(1, third=2.0)) == "Triple(first=1, second='b', third=2.0)"
    assert [f.name for f in fields(Triple)] == ["first", "second", "third"]
    with pytest.raises(FrozenInstanceError):
        Triple(1).first = 2  # type: ignore[misc]  # what must not be


def test_the_standard_ones_and_ours_inherit_from_each_other() -> None:
    @dataclass(frozen=True, slots=True)
    class Theirs(Pair):
        third: int = 3

    @frozen
    class Ours(Theirs):
        fourth: int = 4

    assert asdict(Ours(1)) == {"first": 1, "second": "b", "third": 3, "fourth": 4}
    for made in (Theirs(1), Ours(1)):
        with pytest.raises(FrozenInstanceError):
            made.first = 2  # type: ignore[misc]  # what must not be
        assert pickle.loads(pickle.dumps(Triple(1))) == Triple(1)


def test_methods_of_the_class_itself_stay() -> None:
    assert (hash(Named("x")), repr(Named("x")), Named("x") == Named("x")) == (7, "x", True)


def test_values_are_copied_pickled_matched_and_described() -> None:
    pair = Triple(1, "c", 2.5)
    assert copy.copy(pair) == copy.deepcopy(pair) == pickle.loads(pickle.dumps(pair)) == pair
    match pair:
        case Pair(first, second):
            assert (first, second) == (1, "c")
    assert is_dataclass(pair)
    assert str(inspect.signature(Pair)) == str(inspect.signature(_standard(type("Pair", (), dict(_body())))))


def test_a_method_is_compiled_when_it_is_called_first_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    of_fields = frozen_module._compile
    monkeypatch.setattr(frozen_module, "_compile", lambda made, name: compiled.append(name) or of_fields(made, name))
    for first, name in (
        (lambda cls: cls(3), "__init__"),
        (lambda cls: cls(x=3), "__init__"),
        (lambda cls: hash(_bare(cls)), "__hash__"),
        (lambda cls: _bare(cls) == 3, "__eq__"),
    ):
        cls = _declare(frozen)
        assert not compiled
        first(cls)
        assert compiled == [name]
        assert (cls(3) == cls(3), cls(3).norm) == (True, 3)
        assert sorted(compiled) == sorted({name, "__init__", "__eq__"})
        compiled.clear()


def test_fields_are_made_when_they_are_asked_for() -> None:
    def is_made(cls: type[Any]) -> bool:
        return isinstance(vars(cls)["__dataclass_fields__"], dict)

    for ask in (fields, lambda cls: cls.__match_args__, is_dataclass):
        cls = _declare(frozen)
        cls(3), inspect.signature(cls), cls(1) == cls(2)
        assert not is_made(cls)
        ask(cls)
        assert is_made(cls)
    assert OURS.__match_args__ == THEIRS.__match_args__
    assert OURS.__dataclass_params__.frozen


def test_a_mutable_object_is_what_the_standard_one_is() -> None:
    @mutable(weak=True)
    class Node:
        name: str
        readers: list[Node] = field(default_factory=list)
        place: int | None = field(default=None, init=False)

    node = Node("a")
    node.place = 3
    node.readers.append(node)
    assert repr(node).endswith("Node(name='a', readers=[...], place=3)")
    assert weakref.ref(node)() is node != Node("a", node.readers)
    assert len({node, Node("a")}) == 2
    assert (replace(node, name="b").name, [f.name for f in fields(node)]) == ("b", ["name", "readers", "place"])
    with pytest.raises(AttributeError):
        node.more = 2  # type: ignore[attr-defined]  # what must not be


def test_values_may_be_compared_by_identity() -> None:
    @frozen(eq=False)
    class Part:
        size: int

    one = Part(1)
    assert one == one != Part(1)
    assert len({one, Part(1)}) == 2
    with pytest.raises(FrozenInstanceError):
        one.size = 2  # type: ignore[misc]  # what must not be


def test_a_signature_is_that_of_the_class_that_is_asked() -> None:
    class Own(_declare(frozen)):  # type: ignore[misc]  # of a class that is made here
        def __init__(self, z: int) -> None:
            super().__init__(z)

    assert list(inspect.signature(_declare(frozen)).parameters) == ["x", "y", "tags", "note"]
    assert str(inspect.signature(Own)) == "(z: 'int') -> 'None'"
    assert Own(-4).norm == 4


def test_fields_are_given_by_name_where_the_class_says_so() -> None:
    @frozen(kw_only=True)
    class Choices:
        depth: int
        name: str = "n"
        rest: list[int] = field(default_factory=list)

    assert asdict(Choices(depth=1)) == {"depth": 1, "name": "n", "rest": []}
    assert replace(Choices(depth=1), depth=2).depth == 2
    with pytest.raises(TypeError, match="1 positional argument but 2 were given"):
        Choices(1)  # type: ignore[misc]  # what must not be


def _bare(cls: type[Any]) -> Any:
    """Return an instance that no constructor has made, as copies are."""
    made = cls.__new__(cls)
    for name in ("x", "y", "tags", "norm", "kept", "held"):
        object.__setattr__(made, name, 1)
    return made


def _body() -> dict[str, Any]:
    return {"__annotations__": {"first": "int", "second": "str"}, "second": "b"}


def test_classes_whose_fields_differ_in_their_names_alone_share_compiled_code() -> None:
    first, second = (frozen(type(name, (), {"__annotations__": {a: "int", b: "int"}})) for name, a, b in _NAMES)
    for cls in (first, second):
        assert (cls(1, 2) == cls(1, 2), hash(cls(1, 2))) == (True, hash((1, 2)))
    made = frozen_module._code.cache_info().misses
    third = frozen(type("C", (), {"__annotations__": {"e": "int", "f": "int"}}))
    assert third(3, f=2).e == 3
    assert frozen_module._code.cache_info().misses == made
    with pytest.raises(TypeError, match=r"C\.__init__\(\) missing 1 required positional argument: 'f'"):
        third(1)


_NAMES = (("A", "a", "b"), ("B", "c", "d"))


def test_a_field_without_a_default_behind_one_with_it_is_a_type_error() -> None:
    @frozen
    class Wrong:
        size: int = 1
        name: str

    with pytest.raises(TypeError, match=r"'name' of .*Wrong has no default"):
        Wrong(1)


@pytest.mark.parametrize("make", [frozen, mutable])
def test_fields_and_changed_values_are_those_of_the_standard_library_without_it(make: Any) -> None:
    point = _declare(make)
    made = point(-3, note="m")
    names = list(fields_of(point))
    again = changed(made, y=(5,))
    assert isinstance(vars(point)["__dataclass_fields__"], frozen_module._Asked), "nobody asked for what it lacks"
    assert (again.x, again.y, again.note, again.norm, again.kept) == (-3, (5,), "m", 3, 4)
    assert names == [f.name for f in fields(point)]
    assert changed(Triple(1), second="c") == replace(Triple(1), second="c")
    with pytest.raises(TypeError, match="strange"):
        changed(made, strange=1)
