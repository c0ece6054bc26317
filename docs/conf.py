"""How the documentation site is built: ``python -m sphinx -W docs build/site``.

The pages are Markdown, read by MyST. Nothing in a built page is loaded from another host: no fonts, no scripts, no
pictures, no mathematics renderer: formulas (``$...$``) become MathML when the site is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dptally

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "dptally"
author = "The dptally developers"
copyright = "the dptally developers, Apache-2.0"  # noqa: A001 - the name Sphinx asks for
version = release = dptally.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "generated_text",
    "mathml",
    "outside_links",
    "plain_docstrings",
]
exclude_patterns = ["theme", "extensions"]
suppress_warnings = ["ref.python"]  # short names in docstrings that mean the nearest one

myst_enable_extensions = ["deflist", "dollarmath"]
myst_fence_as_directive = ["math"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
html_math_renderer = "mathml"
myst_heading_anchors = 3
highlight_language = "text"
smartquotes_action = "D"  # dashes only: quotes in docstrings are those of strings
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 96
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Error", "notes_style"), ("Cost", "notes_style")]

html_theme = "furo"
html_title = "dptally"
html_static_path = ["theme"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0f766e",
        "color-brand-content": "#0f766e",
        "color-brand-visited": "#115e59",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Helvetica, Arial, sans-serif",
        "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5eead4",
        "color-brand-content": "#5eead4",
        "color-brand-visited": "#99f6e4",
    },
}
