"""Someone's own function as text, which a fresh interpreter can read: the only form in which it travels.

A function may be given as

    text                       Python whose last statement is the function: a `def`, or `from module import function`
    "module:function"          the same as that import, of something that is installed
    a function                 its text is looked up, if that is the whole function

The last is so where every name that it uses is its own, a builtin, a module, or something that a module has under a name: those
become imports before the text. What a variable of the program holds is not in the text and may be data, so a function that
uses one is refused, and so are closures, lambdas (their text is a piece of a line) and everything that is not a plain function.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import symtable
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from oboro.errors import ParameterError
from oboro.kinds import shown

MOST = 1 << 16  # characters of a text
PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
WHOLE = {
    "needed": "a function by itself",
    "fix": "\"def ratio(rows):\\n    return rows['income'].mean() / rows['age'].mean()\"",
}


def text_of(function: str | Callable[..., Any]) -> str:
    """The function as text."""
    if isinstance(function, str):
        path = PATH.fullmatch(function.strip())
        text = f"from {path[1]} import {path[2]}\n" if path else textwrap.dedent(function)
    else:
        text = _looked_up(function)
    called(text)
    return text


def label_of(function: str | Callable[..., Any], text: str) -> str:
    """How a certificate calls it, where nobody says."""
    if isinstance(function, str):
        return function.strip() if PATH.fullmatch(function.strip()) else called(text)
    return f"{function.__module__}.{function.__qualname__}"


def called(text: str) -> str:
    """The name of the function that a text ends with. Refuses what is not such a text."""
    for last in _tree(text).body[-1:]:
        if isinstance(last, ast.FunctionDef):
            return last.name
        if isinstance(last, ast.ImportFrom) and not last.level and len(last.names) == 1:
            name = last.names[0].asname or last.names[0].name
            if name.isidentifier():
                return name
    raise ParameterError("the text does not end with a function", given=shown(text), **WHOLE)


def imported(text: str) -> tuple[str, ...]:
    """Every module that a text names in an import, wherever it stands, and what might be one."""
    names: dict[str, None] = {}
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names[node.module] = None
            names |= dict.fromkeys(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(names)


def _tree(text: str) -> ast.Module:
    if not isinstance(text, str) or len(text) > MOST:
        raise ParameterError(
            "the text of the function is too long, or no text",
            given=f"{len(text):,} characters" if isinstance(text, str) else shown(text),
            needed=f"at most {MOST:,}",
            fix='"module:function", of a module that is installed',
        )
    try:
        tree = ast.parse(text)
        compile(tree, "<function>", "exec")
        return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParameterError(f"the function is not Python: {error}", given=shown(text), **WHOLE) from None


def _looked_up(function: Any) -> str:
    """The text of a function that is whole without its surroundings."""
    if not isinstance(function, types.FunctionType) or function.__name__ == "<lambda>":
        raise ParameterError("only a plain function can be given as it is", given=shown(function), **WHOLE)
    if function.__closure__:
        raise ParameterError(
            f"the function holds values from around it: {', '.join(function.__code__.co_freevars)}",
            given=shown(function),
            **WHOLE,
        )
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise ParameterError(
            "the text of the function is not to be found: give the text itself",
            given=shown(function),
            **WHOLE,
        ) from None
    tree = _tree(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ParameterError(
            "the text of the function is not to be found: give the text itself",
            given=shown(function),
            **WHOLE,
        )
    text = ast.unparse(ast.fix_missing_locations(_Plain().visit(tree))) + "\n"
    lines = [
        _import_of(name, function)
        for name in sorted(set(_free(symtable.symtable(text, "<function>", "exec"))))
    ]
    return "".join(line for line in lines if line) + text


class _Plain(ast.NodeTransformer):
    """Without annotations, which mean nothing when a function runs, and may name what is only there for a checker of types."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value))


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that the text uses and does not make."""
    made = {name.get_name() for name in table.get_symbols() if name.is_assigned() or name.is_namespace()}
    top = table.get_type() == "module"
    for name in table.get_symbols():
        if name.is_referenced() and (name.get_name() not in made if top else name.is_global()):
            yield name.get_name()
    for inner in table.get_children():
        yield from (name for name in _free(inner) if not top or name not in made)


def _import_of(name: str, function: Any) -> str:
    """The import that gives a name its value, or nothing for a builtin."""
    if name not in function.__globals__:
        if hasattr(builtins, name):
            return ""
        raise ParameterError(f"the function uses {name}, which is nowhere", given=shown(function), **WHOLE)
    value = function.__globals__[name]
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        return f"import {value.__name__} as {name}\n"
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    elsewhere = module not in (None, "__main__", function.__module__)
    if elsewhere and isinstance(own, str) and getattr(sys.modules.get(str(module)), own, None) is value:
        return f"from {module} import {own} as {name}\n"
    raise ParameterError(
        f"the function uses {name}, a variable of the program: write it into the function",
        given=shown(function),
        **WHOLE,
    )
