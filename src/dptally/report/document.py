"""One HTML page that holds all it needs and loads nothing.

The page states in its own Content-Security-Policy that nothing may be loaded and no script may run but the one inside,
named by its hash; so even if a key could become markup, which `dptally.report.markup` prevents, it could do nothing.
"""

from __future__ import annotations

import base64
import hashlib
from string import Template

import dptally
from dptally.report.colours import chart_style, own_file, variables
from dptally.report.markup import Markup, join, tag

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 14V9h3v5zm4.5 0V5h3v9zM11 14V2h3v12z' fill='%230f766e'/%3E%3C/svg%3E"
)


def document(title: str, body: Markup, *, style: str, script: str = "", policy: str | None) -> str:
    """A page with its style, script and Content-Security-Policy; None where a server sends the latter."""
    stated = None if policy is None else tag("meta", http_equiv="Content-Security-Policy", content=policy)
    return Template(own_file("document.html")).substitute(
        policy="" if stated is None else f"{stated}\n",
        version=join(dptally.__version__),
        title=join(title),
        icon=join(_ICON),
        style=style,
        body=body,
        script=script,
    )


def policy_of(style: str, script: str = "", *further: str) -> str:
    """The Content-Security-Policy of a page: nothing is loaded, and nothing runs but this script."""
    rules = (
        "default-src 'none'",
        f"style-src '{_hashed(style)}'",
        f"script-src '{_hashed(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *further,
    )
    return "; ".join(rules)


def page_style(*sheets: str) -> str:
    """The style of a page: colours, charts, and what the given sheets add."""
    return "".join((variables(), chart_style(None), *sheets))


def _hashed(content: str) -> str:
    """The name of inline content in a Content-Security-Policy."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
