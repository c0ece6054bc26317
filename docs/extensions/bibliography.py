"""The bibliography as Markdown, from a BibTeX file."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["entries"]

_ENTRY = re.compile(r"^@(\w+)\{(\w+),\n(.*?)^\}", re.S | re.M)
_FIELD = re.compile(r"(\w+)\s*=\s*[{\"](.*?)[}\"],?\s*$", re.M)
_ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303", "v": "\u030c", "c": "\u0327"}
_ACCENTED = re.compile(r"\{?\\(['`\"^~]|[vc](?=\{))\{?([A-Za-z])\}?\}?")


def entries(bibtex: str) -> str:
    """One paragraph for each entry, in the order of its key."""
    found = {key: dict(_FIELD.findall(body)) for _, key, body in _ENTRY.findall(bibtex)}
    return "\n\n".join(_paragraph(key, found[key]) for key in sorted(found))


def _paragraph(key: str, fields: dict[str, str]) -> str:
    plain = {name: _plain(text) for name, text in fields.items()}
    where = plain.get("journal") or plain.get("booktitle") or plain.get("institution") or plain.get("publisher")
    volume = f" {plain['volume']}" if "volume" in plain else ""
    number = f"({plain['number']})" if "number" in plain else ""
    parts = [
        plain.get("author", "").replace(" and ", ", "),
        f"*{plain.get('title', '')}*",
        f"{where}{volume}{number}" if where else "",
        plain.get("year", ""),
        plain.get("note", ""),
        f"arXiv {plain['eprint']}" if "eprint" in plain else "",
        f"doi {plain['doi']}" if "doi" in plain else "",
    ]
    return f"**[{key}]**\n: " + ". ".join(part.rstrip(".") for part in parts if part) + "."


def _plain(text: str) -> str:
    text = _ACCENTED.sub(lambda found: unicodedata.normalize("NFC", found[2] + _ACCENTS[found[1]]), text)
    return re.sub(r"[{}]", "", text).replace(r"\&", "&").replace("--", "-").replace("~", " ")
