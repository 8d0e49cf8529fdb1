"""Sphinx: Markdown pages, and the interface from the docstrings of the packages."""

import re
import shutil
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project = "lt2theory"
author = "The lt2theory developers"
version = release = installed_version("lt2theory")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# `make notebooks` is what executes them; here they are to be read.
nb_execution_mode = "off"

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


def copy_notebooks(app: Sphinx, _: Any) -> None:
    """Bring the notebooks to where Sphinx reads pages.

    Args:
        app: Sphinx.
    """
    pages = Path(app.srcdir, "_notebooks")
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir()
    for path in sorted(Path(app.srcdir).parent.glob("notebooks/*.ipynb")):
        shutil.copy(path, pages)


def setup(app: Sphinx) -> None:
    """Register what this file adds.

    Args:
        app: Sphinx.
    """
    app.connect("config-inited", copy_notebooks)
    app.connect("autodoc-process-docstring", escape_bars)
