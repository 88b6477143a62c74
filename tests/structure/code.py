"""The amount of code, comments and imports, and the modules that only one other module uses."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp


@dataclass(frozen=True, slots=True)
class CodeFigures:
    """Lines of the Python files of a folder, by what is on them; a line may be counted once only.

    Attributes:
        files: how many there are.
        lines: all of them, with blank ones.
        code: lines with code, imports among them.
        imports: lines of import statements.
        comments: lines with nothing but a comment.
        docstrings: lines of docstrings.
        functions: definitions of functions and methods.
    """

    files: int = 0
    lines: int = 0
    code: int = 0
    imports: int = 0
    comments: int = 0
    docstrings: int = 0
    functions: int = 0

    def __add__(self, other: CodeFigures) -> CodeFigures:
        return CodeFigures(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def figures_of(folder: Path) -> CodeFigures:
    """Count the Python files of a folder and of those in it."""
    return sum((_of_text(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))), CodeFigures())


def single_importers(package: str) -> list[str]:
    """The modules of a package that exactly one other module of it imports."""
    graph = grimp.build_graph(package)
    return [
        module
        for module in sorted(graph.modules)
        if len(graph.find_modules_that_directly_import(module)) == 1
    ]


def _of_text(text: str) -> CodeFigures:
    tree = ast.parse(text)
    docstrings, imports = set(_docstring_lines(tree)), set(_import_lines(tree))
    occupied: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _NOTHING:
            occupied.update(range(token.start[0], token.end[0] + 1))
    code = occupied - docstrings
    return CodeFigures(
        files=1,
        lines=len(text.splitlines()),
        code=len(code),
        imports=len(imports & code),
        comments=len(comments - occupied),
        docstrings=len(docstrings),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree)),
    )


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of docstrings, and of strings that document the assignment before them."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _import_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


_NOTHING = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
)
