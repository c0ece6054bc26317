"""How much a user writes: lines of code without imports, blank lines, comments and docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

__all__ = ["count_user_lines"]


def count_user_lines(file: Path, function: str) -> int:
    """Lines a user of `function` needs: its own, those of functions it calls in the same file, and the module's."""
    text = file.read_text()
    module = ast.parse(text)
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if function not in functions:
        return 0
    wanted, found = [function], {function}
    while wanted:
        for node in ast.walk(functions[wanted.pop()]):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in found:
                found.add(node.id)
                wanted.append(node.id)
    kept: set[int] = set()
    for node in module.body:
        unused = isinstance(node, ast.FunctionDef) and node.name not in found
        if not unused and not isinstance(node, ast.Import | ast.ImportFrom) and not _is_text(node):
            kept.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for name in found:
        first = functions[name].body[0]
        if _is_text(first):
            kept.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(kept & _lines_with_code(text))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _lines_with_code(text: str) -> set[int]:
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines
