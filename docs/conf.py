"""Sphinx: Markdown pages, and the API from the docstrings of the packages."""

from importlib.metadata import version as installed_version

project = "lt2theory"
author = "The lt2theory developers"
version = release = installed_version("lt2theory")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

default_role = "code"

html_theme = "furo"
html_title = "lt2theory"
exclude_patterns = ["_build"]

# Shapes are part of the annotations, and short only as they are written in the source.
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "imported-members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
