"""A page of docs/ and its figures from files in results/: written anew, or compared."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from lt2theory.report.embed import image

FIGURES_FOLDER = "figures"
"""Beside the page."""

Drawings = Mapping[str, tuple[Callable[[pd.DataFrame], Figure | None], str]]
"""By name, what draws a figure (None: there is nothing to draw) and its caption."""
Results = TypeVar("Results")


@dataclass(frozen=True)
class GeneratedPage(Generic[Results]):
    """What a page is made from.

    Attributes:
        what: The page in one line, for --help.
        page: Where the page stands.
        target: The target of make that writes it.
        read: Reads what the page is about from the folder of results.
        text: The page of that.
        figures: Its figures with their names.
    """

    what: str
    page: Path
    target: str
    read: Callable[[Path], Results]
    text: Callable[[Results], str]
    figures: Callable[[Results], Iterable[tuple[str, Figure]]] = lambda _: ()

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
        results = self.read(asked.results)
        page = self.text(results)
        if not asked.check:
            asked.page.write_text(page, encoding="utf-8")
            self._write_figures(results, asked.page.parent / FIGURES_FOLDER)
        elif not asked.page.exists() or asked.page.read_text(encoding="utf-8") != page:
            sys.stderr.write(f"{asked.page} is not what the results give: make {self.target}\n")
            return 1
        return 0

    def _write_figures(self, results: Results, folder: Path) -> None:
        for name, figure in self.figures(results):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.svg").write_bytes(image(figure, "svg"))


def drawn(drawings: Drawings, table: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """The figures for which a table has something to draw.

    Args:
        drawings: All of them.
        table: The table.

    Yields:
        Name and figure.
    """
    for name, (draw, _) in drawings.items():
        figure = draw(table)
        if figure is not None:
            yield name, figure


def figure_links(drawings: Drawings, table: pd.DataFrame, *names: str) -> list[str]:
    """Links to some figures with their captions, where there is something to draw.

    Args:
        drawings: All of them.
        table: The table.
        names: Those that are linked.

    Returns:
        Markdown, two blocks a figure.
    """
    links = []
    for name, _ in drawn({name: drawings[name] for name in names}, table):
        caption = drawings[name][1]
        links += [f"![{caption}]({FIGURES_FOLDER}/{name}.svg)\n", f"{caption}\n"]
    return links
