"""ARCHITECTURE.md names files and functions that are there, and every folder of the package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dptally"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_named_files_exist() -> None:
    """Paths in backticks are files or folders of the package, or of the repository."""
    named = set(re.findall(r"`([\w./]+(?:\.py|/))`", TEXT))
    assert len(named) > 10
    for path in named:
        assert (PACKAGE / path).exists() or (ROOT / path).exists(), path


def test_the_walk_names_functions_of_their_files() -> None:
    """Each step of the walk defines its functions in one of the files beside them."""
    steps = re.findall(r"^\| \d+\. [^|]+\| ([^|]+)\| ([^|]+)\|$", TEXT, re.M)
    assert len(steps) >= 8
    for functions, files in steps:
        sources = "\n".join((PACKAGE / file).read_text(encoding="utf-8") for file in re.findall(r"`([^`]+)`", files))
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
            assert re.search(rf"\bdef {name}\b", sources), name


def test_every_folder_is_in_the_picture() -> None:
    """No folder and no module at the top of the package is left out."""
    picture = TEXT.split("```text\n")[1].split("```")[0]
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    for name in [*(f"{folder}/" for folder in folders), *modules]:
        assert name in picture, name
