"""The site builds without a warning, loads nothing from outside, has no broken link, and misses nothing public."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dptally
from dptally.cli.commands import build_parser

ROOT = Path(__file__).parents[2]
MECHANISMS = ROOT / "docs" / "mechanisms"
PAGES = sorted(page for page in MECHANISMS.glob("*.md") if page.name not in ("index.md", "pure.md"))
SECTIONS = (
    "Statement",
    "Output distribution",
    "Figure",
    "When to use it",
    "When not to use it",
    "Cost",
    "Proof sketch",
    "Citation",
    "Deviations from the paper",
)
MISSING = [name for name in ("sphinx", "myst_parser", "furo") if importlib.util.find_spec(name) is None]
needs_sphinx = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'dptally[docs]'")


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the attributes of a tag."""
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") not in ("index", "search", "next", "prev", "canonical"):
            self.loads.append(found.get("href", ""))
        if tag != "a":
            self.loads += [found[name] for name in ("src", "srcset", "data", "poster") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(place / "doctrees")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(place / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "html"


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    """Every page with its contents."""
    for file in sorted(site.rglob("*.html")):
        yield file, Page(file.read_text(encoding="utf-8"))


@needs_sphinx
def test_nothing_is_loaded_from_outside(site: Path) -> None:
    """Scripts, styles, pictures and fonts are all part of the site."""
    for file, page in pages(site):
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{file.name} loads {address}"
    for style in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", style.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", text), style.name
    for picture in site.rglob("*.svg"):
        assert not re.search(r"href=['\"]https?:|@import|<script", picture.read_text(encoding="utf-8")), picture.name


@needs_sphinx
def test_no_link_is_broken(site: Path) -> None:
    """Every link inside of the site leads to a file, and to a place in it."""
    contents = dict(pages(site))
    checked = 0
    for file, page in contents.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.is_file(), f"{file.relative_to(site)}: {link}"
            if parts.fragment and target in contents:
                assert unquote(parts.fragment) in contents[target].places, f"{file.relative_to(site)}: {link}"
            checked += 1
    assert checked > 1000


@needs_sphinx
def test_every_public_name_has_an_entry(site: Path) -> None:
    """The reference has a place for each name of the package, and the navigation leads to it."""
    places = Page((site / "reference" / "python.html").read_text(encoding="utf-8")).places
    assert {f"dptally.{name}" for name in dptally.__all__} <= places


@needs_sphinx
def test_every_command_has_a_section(site: Path) -> None:
    """The reference of the command line has each command of the parser."""
    text = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for command in commands():
        assert f"dptally {command}" in text


def commands() -> list[str]:
    """The names of all commands."""
    action = next(action for action in build_parser()._actions if action.dest == "command")
    assert action.choices is not None
    return list(action.choices)


def test_every_mechanism_has_its_page() -> None:
    """What `publish(mechanism=...)` takes is in the title of a page."""
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in MECHANISMS.glob("*.md")]
    with pytest.raises(dptally.InvalidParameter, match="must be one of") as refusal:
        dptally.publish({}, epsilon=1, delta="1e-6", mechanism="nonsense")
    names = re.findall(r"'(\w+)'", str(refusal.value).split(", got ")[0])
    assert len(names) >= 8
    for name in names:
        assert any(f'mechanism="{name}"' in title for title in titles), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_of_mechanisms_have_the_same_sections(page: Path) -> None:
    """Statement, output distribution, figure, when to use it and not, cost, proof, citation, deviations: each once."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.M)
    for section in SECTIONS:
        assert headings.count(section) == 1, section
    picture = text.split("## Figure\n")[1].split("\n## ")[0]
    assert f"(../figures/mechanism_pages/{page.stem}.svg)" in picture


def test_pictures_of_mechanisms_are_small_and_from_the_laws() -> None:
    """Each page has a function that draws it; a stored picture is below 40 KB; a recomputed number is the law's."""
    from studies.figures.mechanism_pages import PICTURES

    from dptally.laws.weighted_sample import WeightedSample

    assert set(PICTURES) == {page.stem for page in PAGES}
    for name in PICTURES:
        assert (ROOT / "docs" / "figures" / "mechanism_pages" / f"{name}.svg").stat().st_size < 40_000
    drops = PICTURES["weighted-sample"]()[0].curves["count - value"]
    assert [chance for _, chance in drops] == [float(chance) for chance in WeightedSample("1", "1e-6").drop_law]


@pytest.mark.parametrize("name", [page.stem for page in PAGES if page.stem != "heavy-hitters"])  # that one takes long
def test_stored_pictures_are_what_the_command_writes(name: str) -> None:
    """A picture that is drawn anew has the words and numbers of the stored one, and names no other host."""
    from studies.figures.mechanism_pages import PICTURES, draw

    new = draw(PICTURES[name]()).content().decode()
    stored = (ROOT / "docs" / "figures" / "mechanism_pages" / f"{name}.svg").read_text(encoding="utf-8")
    assert re.findall(r">([^<>]+)</text>", new) == re.findall(r">([^<>]+)</text>", stored)
    assert set(re.findall(r"https?://[^\s\"']+", new)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_pages_that_are_missing_would_be_noticed() -> None:
    """The reader of pages sees links, what is loaded, and places."""
    page = Page('<a href="x.html#y">x</a><img src="//z/p.png"><link rel="stylesheet" href="s.css"><p id="q">')
    assert (page.links, page.loads, page.places) == (["x.html#y"], ["//z/p.png", "s.css"], {"q"})
