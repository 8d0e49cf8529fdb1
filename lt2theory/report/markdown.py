"""Tables in Markdown."""

from collections.abc import Mapping, Sequence


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a heading.

    Args:
        columns: Headings.
        rows: Cells, as many a row as there are headings.

    Returns:
        Lines of Markdown, without a last line break; bars within cells are escaped.
    """
    lines = [_line(columns), "|---" * len(columns) + "|", *map(_line, rows)]
    return "\n".join(lines)


def record_table(records: Sequence[Mapping[str, str]]) -> str:
    """A table of records with the same fields.

    Args:
        records: At least one; its fields are the headings.

    Returns:
        As `markdown_table`.
    """
    return markdown_table(list(records[0]), [list(record.values()) for record in records])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
