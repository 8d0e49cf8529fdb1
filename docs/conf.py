"""Sphinx: Markdown pages, and the interface from the docstrings of the packages."""

import re
from importlib.metadata import version as installed_version
from typing import Any

from sphinx.application import Sphinx

project = "lt2theory"
author = "The lt2theory developers"
version = release = installed_version("lt2theory")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Docstrings put code in single backticks.
default_role = "code"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "lt2theory"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_copyright = False


def escape_bars(_: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep `|x|`, an absolute value in our docstrings, from being a substitution.

    Args:
        what: Kind of object.
        name: Its full name.
        obj: The object.
        options: Options of the directive.
        lines: Its docstring, changed in place.
    """
    code = re.compile(r"(`+[^`]*`+)")
    for number, line in enumerate(lines):
        parts = code.split(line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> None:
    """Register what this file adds.

    Args:
        app: Sphinx.
    """
    app.connect("autodoc-process-docstring", escape_bars)
