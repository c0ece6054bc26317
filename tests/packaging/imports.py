"""Which module of the package imports which, read from the source: at the top of a file, in functions, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["DYNAMIC", "import_graph", "reached", "sources"]

DYNAMIC = "(a module that is named while running)"
_ROOT = "dptally"


def sources(package: Path) -> dict[str, str]:
    """The text of every module, by its dotted name without ``dptally.``; the package itself is ``""``."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text()
    return found


def import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """For each module, those of the package that it imports, anywhere in it.

    What stands under ``if TYPE_CHECKING:`` is left out: it is never loaded, and names in annotations are no access to
    data. A module also reaches the packages it is in, and names that a package loads on demand (its ``_HOMES``).
    """
    return {name: set(_imported(name, texts)) - {name, ""} for name in texts}


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All modules that a module leads to."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


@dataclass(frozen=True)
class _Statements:
    """What a module's text says about imports, whatever other modules there are."""

    homes: dict[str, str]
    imports: list[tuple[str, str | None]]
    from_imports: list[tuple[int, str, tuple[str, ...]]]
    by_name: list[str | None]
    attributes: set[tuple[str, str]]


@cache
def _read(text: str) -> _Statements:
    found = _Statements({}, [], [], [], set())
    for node in _loaded(ast.parse(text)):
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["_HOMES"]:
            found.homes.update(ast.literal_eval(node.value))
        elif isinstance(node, ast.Import):
            found.imports.extend((alias.name, alias.asname) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.from_imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            target = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            found.by_name.append(target if isinstance(target, str) else None)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.attributes.add((node.value.id, node.attr))
    return found


def _loaded(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, without those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from _loaded(other)
            continue
        yield child
        yield from _loaded(child)


def _imported(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    said = _read(texts[name])
    own_package = name if any(other.startswith(f"{name}.") for other in texts) else name.rpartition(".")[0]
    yield from _with_packages(own_package)
    aliases = set()  # names under which the package itself is known here
    for module, renamed in said.imports:
        if module.split(".")[0] != _ROOT:
            continue
        if renamed is None or module == _ROOT:
            aliases.add(renamed or _ROOT)
        yield from _with_packages(_inside(module))
    for level, module, names in said.from_imports:
        if level:
            parts = own_package.split(".") if own_package else []
            source = ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])
        elif module.split(".")[0] == _ROOT:
            source = _inside(module)
        else:
            continue
        yield from _with_packages(source)
        for each in names:
            yield from _named(source, each, texts)
    for target in said.by_name:
        if target is None:
            yield DYNAMIC
        elif target.split(".")[0] == _ROOT:
            yield from _with_packages(_inside(target))
    for base, attribute in said.attributes:
        if base in aliases:
            yield from _named("", attribute, texts)


def _named(source: str, name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """What a name imported from a module leads to: a module, or the home of a name that is loaded on demand."""
    module = f"{source}.{name}" if source else name
    if module in texts or module == "_core":
        yield module
        return
    home = _read(texts[source]).homes.get(name) if source in texts else None
    if home is not None:
        yield from _with_packages(_inside(home) if home.startswith(_ROOT) else f"{source}.{home}")


def _inside(module: str) -> str:
    return module.removeprefix(_ROOT).removeprefix(".")


def _with_packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
