"""Figures as images inside a page: sharp SVG, or PNG where a drawing has too many points."""

import base64
import io
from typing import Literal

from matplotlib.figure import Figure

from lt2theory.report.style import styled

# Above this a browser is slow to draw the SVG, and a PNG of twice the screen's density is smaller.
SVG_LIMIT = 400_000
PNG_DPI = 200


def data_uri(figure: Figure, *, svg_limit: int = SVG_LIMIT) -> str:
    """A figure as a `data:` address.

    Args:
        figure: The drawing.
        svg_limit: Bytes up to which SVG is taken.

    Returns:
        A base64 address of an SVG or a PNG image; equal figures give equal addresses.
    """
    svg = image(figure, "svg")
    if len(svg) <= svg_limit:
        return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f"data:image/png;base64,{base64.b64encode(image(figure, 'png')).decode()}"


@styled
def image(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """A figure as the contents of a file; equal figures give equal bytes.

    Args:
        figure: The drawing.
        kind: The format.

    Returns:
        The image.
    """
    buffer = io.BytesIO()
    # No date and no program name: the same figure must give the same bytes.
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=metadata)
    return buffer.getvalue()
