"""A page of docs/ and its figures from a table in results/: written anew, or compared."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.report.embed import image

FIGURES_FOLDER = "figures"
"""Beside the page."""


@dataclass(frozen=True)
class GeneratedPage:
    """What a page is made from.

    Attributes:
        what: The page in one line, for --help.
        table: The file of the table in results/.
        page: Where the page stands.
        target: The target of make that writes it.
        read: Reads the table.
        empty: The table where nothing was run yet.
        text: The page of a table and of what else lies in the folder of results.
        figures: By name, what draws a figure (None: there is nothing to draw) and its caption.
    """

    what: str
    table: str
    page: Path
    target: str
    read: Callable[[Path], pd.DataFrame]
    empty: Callable[[], pd.DataFrame]
    text: Callable[[pd.DataFrame, Path], str]
    figures: Mapping[str, tuple[Callable[[pd.DataFrame], Any], str]]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Write or check the page.

        Args:
            arguments: Those of the command line; the process's by default.

        Returns:
            The exit code: 1 where the page is not what the results give.
        """
        parser = argparse.ArgumentParser(description=self.what)
        parser.add_argument("--results", type=Path, default=Path("results"))
        parser.add_argument("--page", type=Path, default=self.page)
        parser.add_argument("--check", action="store_true", help="compare instead of writing")
        asked = parser.parse_args(arguments)
        path = asked.results / self.table
        table = self.read(path) if path.exists() else self.empty()
        page = self.text(table, asked.results)
        if not asked.check:
            asked.page.write_text(page, encoding="utf-8")
            self._write_figures(table, asked.page.parent / FIGURES_FOLDER)
        elif not asked.page.exists() or asked.page.read_text(encoding="utf-8") != page:
            sys.stderr.write(f"{asked.page} is not what the results give: make {self.target}\n")
            return 1
        return 0

    def _write_figures(self, table: pd.DataFrame, folder: Path) -> None:
        """Every figure that there is something to draw for."""
        for name, (draw, _) in self.figures.items():
            figure = draw(table)
            if figure is not None:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}.svg").write_bytes(image(figure, "svg"))
