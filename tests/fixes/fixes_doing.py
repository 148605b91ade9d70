"""A fix is done as it is written: in Python to the call that was refused, on the command line to the line that was typed."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import re
import shlex
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import numpy

import oboro as ob
from oboro.domain import column_from
from oboro.errors import Declaration, OboroError

Key = tuple[Any, ...]
WORDS, NOBODY, SAME, SUCCESS, OTHER, BROKEN = "words", "nobody", "same", "success", "other", "broken"


def key_of(error: OboroError) -> Key:
    """What makes it this refusal and no other."""
    return type(error), getattr(error, "made_at", [None])[0], error.argument, error.message


def outcome(work: Callable[[], Any], first: OboroError) -> tuple[str, str]:
    """What comes of a call after the fix of `first` was done to it."""
    try:
        work()
    except OboroError as error:
        same = key_of(error) == key_of(first)
        return (SAME if same else OTHER), f"{error.message} [{error.given}]"
    except Exception as error:
        return BROKEN, f"{type(error).__name__}: {error}"
    return SUCCESS, ""


def do(error: OboroError, names: dict[str, Any]) -> tuple[str, str]:
    """Does the fix of an error that a call in Python raised, and says what came of it."""
    fix = error.fix
    assert fix is not None
    frames = _frames(error)
    inner = {key: value for frame in reversed(frames) for key, value in frame.f_locals.items()}
    known = {**inner, **names, "ob": ob, "numpy": numpy, "np": numpy}
    if isinstance(fix, Declaration):
        return outcome(lambda: (eval(fix, known), column_from(tomllib.loads(fix.toml)["columns"][0])), error)
    settings = getattr(fix, "settings", ())
    if settings and settings[0][1] == "question":
        return outcome(lambda: eval(fix, known), error)
    if settings:
        written = ", ".join(fragment for fragment, _, _ in settings)
        try:
            values = eval(f"dict({written})", known)
        except Exception as wrong:
            return BROKEN, f"{written}: {type(wrong).__name__}: {wrong}"
        again = _with(frames, values)
        return outcome(again, error) if again else (NOBODY, written)
    try:
        code = compile(fix, "fix", "eval")
    except SyntaxError:
        return WORDS, fix
    if not re.search(r"\w\(", fix):  # a name or a value: the case says what it is for
        return WORDS, fix
    return outcome(lambda: eval(code, known), error)


def _frames(error: OboroError) -> list[FrameType]:
    """Functions of oboro that the call went through, the one that was called first."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "oboro":
            frames.append(trace.tb_frame)
        trace = trace.tb_next
    return frames


def _with(frames: list[FrameType], values: dict[str, Any]) -> Callable[[], Any] | None:
    """The outermost of the calls that takes these arguments, with them."""
    for frame in frames:
        called = _call(frame)
        if called is None:
            continue
        function, arguments, rest = called
        if values.keys() <= arguments.keys():
            return lambda: function(**{**arguments, **values, **rest})
    for frame in frames:  # something that it was handed has them
        called = _call(frame)
        if called is None:
            continue
        function, arguments, rest = called
        for name, value in arguments.items():
            changed = _changed(value, values)
            if changed is not None:
                return lambda: function(**{**arguments, **rest, name: changed()})
    return None


def _changed(value: Any, values: dict[str, Any]) -> Callable[[], Any] | None:
    """The same thing, made with other values."""
    if isinstance(value, ob.Ledger) and values.keys() <= {"unit", "budget"}:
        place = Path(tempfile.mkdtemp()) / "other.ledger"
        facts = {"unit": value.unit, "budget": value.budget, **values}
        return lambda: ob.Ledger.create(place, dataset=value.dataset, **facts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name for one in dataclasses.fields(value) if one.init}
        if values.keys() <= fields:
            return lambda: dataclasses.replace(value, **values)
    return None


def _call(frame: FrameType) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]] | None:
    """What was called, by the names of its arguments."""
    code = frame.f_code
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE) or code.co_name.startswith("<"):
        return None
    if code.co_name == "checked" and "function" in frame.f_locals:  # what `kinds.takes` looks at first
        return _looked_at(frame.f_locals["function"], frame.f_locals["args"], frame.f_locals["kwargs"])
    if code.co_posonlyargcount or code.co_flags & inspect.CO_VARARGS:
        return _starred(frame)
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    if any(name not in frame.f_locals for name in names):
        return None
    arguments = {name: frame.f_locals[name] for name in names}
    rest = frame.f_locals.get(code.co_varnames[count], {}) if code.co_flags & inspect.CO_VARKEYWORDS else {}
    if code.co_name in ("__init__", "__post_init__"):
        made = arguments.pop("self")
        if code.co_name == "__post_init__":
            fields = [one.name for one in dataclasses.fields(made) if one.init]
            arguments = {name: getattr(made, name) for name in fields if hasattr(made, name)}
        return type(made), arguments, rest
    function = _function(code)
    return None if function is None else (function, arguments, rest)


def _looked_at(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
    given = inspect.signature(function).bind_partial(*args, **kwargs)
    given.apply_defaults()
    kinds = inspect.signature(function).parameters
    stars = [name for name, one in kinds.items() if one.kind is inspect.Parameter.VAR_POSITIONAL]
    first = (
        [given.arguments.pop(name) for name in list(kinds)[: list(kinds).index(stars[0])]] if stars else []
    )
    rest = given.arguments.pop(stars[0]) if stars else ()
    for name, one in kinds.items():
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            given.arguments.update(given.arguments.pop(name, {}))
    if function.__name__ == "__init__":
        made = type(first.pop(0) if stars else given.arguments.pop("self"))
        return (lambda **named: made(*first, *rest, **named)), dict(given.arguments), {}
    return (lambda **named: function(*first, *rest, **named)), dict(given.arguments), {}


def _starred(frame: FrameType) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]] | None:
    code = frame.f_code
    if not code.co_flags & inspect.CO_VARARGS:
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    first = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
    stars = frame.f_locals[code.co_varnames[count]]
    words = {name: frame.f_locals[name] for name in names[code.co_argcount :]}
    function = _function(code)
    if code.co_name == "__init__":
        made = type(first.pop(0))
        return (lambda **given: made(*first, *stars, **given)), words, {}
    if function is None:
        return None
    return (lambda **given: function(*first, *stars, **given)), words, {}


def _function(code: Any) -> Callable[..., Any] | None:
    gc.unfreeze()  # conftest.py froze what was collected, and nobody is told who refers to what is frozen
    return next((one for one in gc.get_referrers(code) if isinstance(one, FunctionType)), None)


# -- the command line ---------------------------------------------------------------------------------------------------


def typed_again(line: list[str], fix: str) -> list[list[str]] | None:
    """The lines to type once a fix was read: the line again with other options, or the line that it shows and then the first again."""
    if fix.startswith("without "):
        option = fix.split()[1]
        return [_without(line, option)]
    if fix.startswith("-") and "..." not in fix:
        words = shlex.split(re.sub(r", (which|or) .*$", "", fix))
        again = list(line)
        for word in words:
            if re.fullmatch(r"--?[a-z][a-z-]*", word):
                again = _without(again, word)
        return [[*again, *words]]
    if fix.startswith("oboro "):
        words = shlex.split(re.sub(r", .*$", "", fix))[1:]
        if "..." in words:
            at = words.index("...")
            again = list(line)
            for word in words[at + 1 :]:
                if re.fullmatch(r"--?[a-z][a-z-]*", word):
                    again = _without(again, word)
            return [[*again, *words[at + 1 :]]] if line[:at] == words[:at] else None
        command = [word for word in line[:2] if re.fullmatch("[a-z]+", word)]
        return (
            [words]
            if words[: len(command)] == command or words[:1] == line[:1] == ["reproduce"]
            else [words, line]
        )
    return None


def _without(line: list[str], option: str) -> list[str]:
    """The line without an option and its value."""
    left, skip = [], False
    names = {"-o": "--output", "--output": "-o"}
    for word in line:
        if skip and not word.startswith("--"):
            skip = False
            continue
        skip = word in (option, names.get(option))
        if not skip:
            left.append(word)
    return left
