"""Links between our pages lead somewhere: to files of the tree, and to headings that are there."""

import re
from pathlib import Path

import pytest

from tests.test_repository import ROOT, tracked

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
"""Those that docs/conf.py gives anchors (`myst_heading_anchors`)."""
ELSEWHERE = re.compile(r"[a-z]+:")


def links(text: str) -> list[str]:
    """Where the links and images of a page lead, those to other sites left out."""
    found = LINK.findall(CODE.sub("", text))
    return [target for target in found if not ELSEWHERE.match(target)]


def anchors(text: str) -> set[str]:
    """Names of a page's headings in links, as GitHub and MyST write them."""
    fenced = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    plain = (re.sub(r"[^\w\- ]", "", name.lower()) for name in HEADING.findall(fenced))
    return {name.strip().replace(" ", "-") for name in plain}


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""

    def leads(target: str) -> bool:
        name, _, anchor = target.partition("#")
        goal = page.parent / name if name else page
        if not anchor:
            return goal.exists()
        return goal.exists() and anchor in anchors(goal.read_text(encoding="utf-8"))

    text = page.read_text(encoding="utf-8")
    return [target for target in links(text) if not leads(target)]


def test_links_of_every_page() -> None:
    pages = [ROOT / path for path in tracked() if path.suffix == ".md"]
    counts = {page: len(links(page.read_text(encoding="utf-8"))) for page in pages}
    assert counts[ROOT / "README.md"] >= 10
    found = {str(page.relative_to(ROOT)): broken(page) for page in pages}
    assert not any(found.values()), {page: wrong for page, wrong in found.items() if wrong}


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("[a](other.md)", False),
        ("[a](other.md#two-words-loops-1)", False),
        ("[a](#here)", False),
        ("[](other.md)", False),
        ("[a](https://example.org/none.md#x)", False),
        ("`[a](none.md)`", False),
        ("[a](none.md)", True),
        ("![a](figures/none.svg)", True),
        ("[a](other.md#in-code)", True),
        ("[a](#there)", True),
    ],
)
def test_broken_links_are_found(link: str, wrong: bool, tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    page.write_text(f"# Here\n\n{link}\n", encoding="utf-8")
    other.write_text("## Two words: `loops` (1)\n\n```bash\n# in code\n```\n", encoding="utf-8")
    assert bool(broken(page)) == wrong
