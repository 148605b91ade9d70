"""One codec: frozen dataclasses as plain records and back, by their annotations.

A record is made of texts, whole numbers, truth values, lists and dictionaries, so that it has one spelling in JSON and
in TOML. Rationals are written as texts that `exact.rational` reads back; a field that has its default is left
out; a class with a `kind` says so. Reading is strict: an unknown field, a missing one, a value of another kind is
refused by its name. What a class itself rules out, its constructor refuses: records take no way around it.

Four things that annotations cannot say:

    inline[T]     the fields of T stand among those of the class that holds it
    apart[T]      columns in T are no columns of the data: they are written out
    Callable      a function cannot be written; who reads the record hands it over (`handed`)
    as_record, from_record
                  what a class defines if its record is not its fields: a condition is a text

A column is written by its name where the record as a whole lists the columns it uses: `columns` gathers them in writing,
and knows them in reading.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from abc import ABCMeta
from collections.abc import Callable, Mapping
from datetime import date
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from oboro.errors import ParameterError, told
from oboro.exact import rational, show
from oboro.kinds import nearest, shown

T = TypeVar("T")
_INLINE = "its fields stand among ours"
_APART = "its columns are written out"
inline = Annotated[T, _INLINE]
apart = Annotated[T, _APART]

Columns = dict[str, Any]  # by name
Record = dict[str, Any]  # as read: whoever takes a part of it knows, or checks, of what kind it is
Facts = Mapping[str, Any]  # the same, to read alone


def write(value: object, columns: Columns | None = None) -> Any:
    """The record of a value. With `columns`, columns are gathered there and written by name."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Fraction):
        return show(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [write(one, columns) for one in value]
    if (own := getattr(type(value), "as_record", None)) is not None:
        return own(value, columns)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return write_fields(value, columns)
    if isinstance(value, Mapping):
        return {str(name): write(one, columns) for name, one in value.items()}
    raise ParameterError(
        "this cannot be written into a record",
        given=shown(value),
        needed="texts, whole numbers, rationals, dates, and what is made of them",
    )


def write_fields(value: Any, columns: Columns | None = None) -> dict[str, object]:
    """The record of a dataclass: its kind, and the fields that do not have their default."""
    record: dict[str, object] = {"kind": value.kind} if _tagged(type(value)) else {}
    for one in _form(type(value)):
        held = getattr(value, one.name)
        if one.inline:
            record |= {name: part for name, part in write_fields(held, columns).items() if name != "kind"}
        elif not one.function and not (one.optional and _same(held, one.default)):
            record[one.name] = write(held, None if one.apart else columns)
    return record


def read(
    hint: Any,
    record: object,
    where: str,
    columns: Columns | None = None,
    handed: Mapping[str, object] | None = None,
) -> Any:
    """The value that `write` wrote, of the kind that an annotation says. `where` is how an error calls it."""
    origin, args = _taken_apart(hint)
    if origin is Annotated:
        return read(args[0], record, where, columns)
    if origin in (Union, types.UnionType):
        return _read_one_of(args, record, where, columns)
    if origin is Literal:
        if type(record) in {type(word) for word in args} and record in args:
            return record
        raise _wrong(where, record, ", ".join(map(repr, args)))
    if origin is tuple:
        return _read_tuple(args, record, where, columns)
    if origin is dict:
        if type(record) is not dict or not all(type(name) is str for name in record):
            raise _wrong(where, record, "a table")
        return {name: read(args[1], one, f"{where}.{name}", columns) for name, one in record.items()}
    if hint in (bool, int, str):
        if type(record) is not hint:
            raise _wrong(where, record, {bool: "true or false", int: "a whole number", str: "a text"}[hint])
        return record
    if hint is Fraction:
        if type(record) not in (int, str, float):
            raise _wrong(where, record, "a number")
        return rational(where, record)
    if hint is date:
        return _read_date(record, where)
    if (own := getattr(hint, "from_record", None)) is not None:
        return own(record, columns, where)
    return read_fields(_class_of(hint, record, where), record, where, columns, handed)


def has_field(cls: type, name: str) -> bool:
    return name in _names(cls)


def read_fields(
    cls: type[T],
    record: object,
    where: str,
    columns: Columns | None = None,
    handed: Mapping[str, object] | None = None,
) -> T:
    """An instance of `cls` from its record, by its constructor."""
    if type(record) is not dict:
        raise _wrong(where, record, f"a table with {', '.join(_names(cls)) or 'nothing'}")
    known = _names(cls)
    given = {name: one for name, one in record.items() if not (name == "kind" and _tagged(cls))}
    for name in given:
        if name not in known:
            close = nearest(name, known)
            raise ParameterError(
                f"{where} has an unknown field" + (f": did you mean {close!r}?" if close else ""),
                given=shown(name),
                needed=", ".join(known),
            )
    values: dict[str, object] = {}
    for one in _form(cls):
        if one.inline:
            inner = {name: given[name] for name in _names(one.hint) if name in given}
            values[one.name] = read_fields(one.hint, inner, where, columns)
        elif one.function:
            if handed and one.name in handed:
                values[one.name] = handed[one.name]
            elif not one.optional:
                raise ParameterError(
                    f"{where} with your own function cannot be read from a record",
                    given=f"no {one.name}",
                    needed="the function itself",
                )
        elif one.name in given:
            values[one.name] = read(one.hint, given[one.name], f"{where}.{one.name}", columns)
        elif not one.optional:
            raise ParameterError(f"{where} is incomplete", given=f"no {one.name}", needed=", ".join(known))
    return cls(**values)


def check_fields(value: object, where: str) -> None:
    """Refuses a dataclass with a field of another kind than its annotation says: constructors do not look."""
    for one in _form(type(value)):
        held = getattr(value, one.name)
        by_kind = id(one.hint), type(held)
        if by_kind in _sure:
            continue
        if _fits(one.hint, held):
            if _of_classes(one.hint):
                _sure.add(by_kind)
        else:
            raise ParameterError(
                f"{where} has a field of the wrong kind",
                given=told(**{one.name: shown(held)}),
                needed=str(one.hint) if get_args(one.hint) else one.hint.__name__,
            )


_sure: set[tuple[int, type]] = (
    set()
)  # annotations of the classes of `_forms`, and the kinds that fit them whatever they hold


def _of_classes(hint: Any) -> bool:
    """Whether an annotation is of classes alone, so that the class of a value decides."""
    origin, args = _taken_apart(hint)
    if origin is Annotated:
        return _of_classes(args[0])
    if origin in (Union, types.UnionType):
        return all(map(_of_classes, args))
    return origin is None and isinstance(hint, type)


def _fits(hint: Any, value: object) -> bool:
    origin, args = _taken_apart(hint)
    if origin is Annotated:
        return _fits(args[0], value)
    if origin in (Union, types.UnionType):
        return any(_fits(one, value) for one in args)
    if origin is Literal:
        return any(type(value) is type(word) and value == word for word in args)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        each = [args[0]] * len(value) if args[1:] == (Ellipsis,) else args
        return len(each) == len(value) and all(map(_fits, each, value))
    if origin is dict:
        return isinstance(value, dict)
    if _function(hint):
        return callable(value)
    if hint in (int, str, bool):
        return type(value) is hint
    if hint is Any or not isinstance(value, hint):
        return hint is Any
    closed = (
        {hint} if _tagged(hint) else set() if hasattr(hint, "from_record") else set(_kinds(hint).values())
    )
    return not closed or type(value) in closed  # a class below one of ours is not one of ours


def functions_of(value: object) -> dict[str, object]:
    """The functions that a dataclass holds, by the names of their fields: what a record cannot carry."""
    return {one.name: getattr(value, one.name) for one in _form(type(value)) if one.function}


# -- the form of a class -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    hint: Any
    optional: bool
    default: Any
    inline: bool
    apart: bool
    function: bool


_forms: dict[Any, tuple[_Field, ...]] = {}


def _form(cls: Any) -> tuple[_Field, ...]:
    if (known := _forms.get(cls)) is not None:
        return known
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for one in dataclasses.fields(cls):
        if not one.init:
            continue
        hint = hints[one.name]
        notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        inside = _INLINE in notes
        default = None if one.default is dataclasses.MISSING else one.default
        if one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        optional = not (
            one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        ) or one.metadata.get("optional", False)
        found.append(
            _Field(
                one.name,
                get_args(hint)[0] if inside else hint,
                optional,
                default,
                inside,
                _APART in notes,
                _function(hint) or one.metadata.get("handed", False),
            )
        )
    return _forms.setdefault(cls, tuple(found))


_parts: dict[
    int, tuple[Any, Any, tuple[Any, ...]]
] = {}  # by identity: `A | B` equals `B | A`, and is read otherwise


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Such as tuple, and what it is of. A class is made of nothing else."""
    if type(hint) in (type, ABCMeta):
        return None, ()
    if (known := _parts.get(id(hint))) is None or known[0] is not hint:
        known = _parts[id(hint)] = (hint, get_origin(hint), get_args(hint))
    return known[1], known[2]


_named: dict[Any, tuple[str, ...]] = {}


def _names(cls: Any) -> tuple[str, ...]:
    if (known := _named.get(cls)) is not None:
        return known
    names: list[str] = []
    for one in _form(cls):
        names += _names(one.hint) if one.inline else [] if one.function else [one.name]
    return _named.setdefault(cls, tuple(names))


def _function(hint: Any) -> bool:
    return get_origin(hint) is Callable or hint is Callable


def _tagged(cls: type) -> bool:
    """Whether the class has a kind of its own, beside its fields."""
    return isinstance(getattr(cls, "kind", None), str)


def _same(held: Any, default: Any) -> bool:
    return type(held) is type(default) and bool(held == default)


def _class_of(hint: Any, record: object, where: str) -> type:
    """The class itself, or the one below it whose kind the record names."""
    if not isinstance(hint, type):
        raise TypeError(f"{where}: no codec for {hint!r}")
    below = {} if _tagged(hint) else _kinds(hint)
    if below:
        kind = record.get("kind") if type(record) is dict else None
        if type(kind) is not str or kind not in below:
            raise _unknown_kind(where, kind, below)
        return below[kind]
    if _tagged(hint) and (type(record) is not dict or record.get("kind") != hint.kind):  # type: ignore[attr-defined]
        raise _unknown_kind(where, record.get("kind") if type(record) is dict else record, {hint.kind: hint})  # type: ignore[attr-defined]
    if not dataclasses.is_dataclass(hint):
        raise TypeError(f"{where}: no codec for {hint!r}")
    return hint


@cache
def _kinds(base: type, module: str | None = None) -> dict[str, type]:
    """Every class below `base` by its kind, of those that stand in its own module: nobody adds a promise from outside.

    The first to have a kind keeps it: nothing made later takes its place.
    """
    found: dict[str, type] = {}
    module = module or base.__module__
    below: Any
    for below in base.__subclasses__():
        # a dataclass with slots leaves behind the class that it was made from
        real = getattr(sys.modules.get(module), below.__name__, None) is below
        if real and _tagged(below) and hasattr(below, "__dataclass_fields__"):
            found.setdefault(below.kind, below)
        for kind, cls in _kinds(below, module).items():
            found.setdefault(kind, cls)
    return found


def _unknown_kind(where: str, kind: object, known: Mapping[str, object]) -> ParameterError:
    return ParameterError(
        f"{where} has an unknown kind",
        given=told(kind=shown(kind)),
        needed=", ".join(known),
        fix=f'kind = "{next(iter(known))}"',
    )


# -- reading ---------------------------------------------------------------------------------------------------------------


def _read_one_of(args: tuple[Any, ...], record: object, where: str, columns: Columns | None) -> Any:
    if record is None and type(None) in args:
        return None
    options = [one for one in args if one is not type(None)]
    if len(options) == 1:
        return read(options[0], record, where, columns)
    tagged: dict[str, object] = {one.kind: one for one in options if isinstance(one, type) and _tagged(one)}  # type: ignore[attr-defined]
    if len(tagged) == len(options):
        kind = record.get("kind") if type(record) is dict else None
        if type(kind) is not str or kind not in tagged:
            raise _unknown_kind(where, kind, tagged)
        return read(tagged[kind], record, where, columns)
    failures: list[ParameterError] = []
    for option in options:
        try:
            return read(option, record, where, columns)
        except ParameterError as error:
            failures.append(error)
    raise failures[0]


def _read_tuple(
    args: tuple[Any, ...], record: object, where: str, columns: Columns | None
) -> tuple[Any, ...]:
    if type(record) is not list:
        raise _wrong(where, record, "a list")
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(read(args[0], one, f"{where}[{i}]", columns) for i, one in enumerate(record))
    if len(record) != len(args):
        raise _wrong(where, record, f"a list of {len(args)}")
    return tuple(
        read(hint, one, f"{where}[{i}]", columns)
        for i, (hint, one) in enumerate(zip(args, record, strict=True))
    )


def _read_date(record: Any, where: str) -> date:
    if type(record) is date:  # TOML has dates of its own
        return record
    try:
        return date.fromisoformat(record)
    except (TypeError, ValueError):
        raise _wrong(where, record, "a date such as 2026-03-01") from None


def _wrong(where: str, record: object, needed: str) -> ParameterError:
    return ParameterError(
        f"{where} is of the wrong kind", given=told(**{where: shown(record)}), needed=needed
    )
