"""The one style sheet: fonts, lines, and a look for every arm that stays the same across figures.

Nothing here changes matplotlib's global settings for longer than one call: figure functions run
under `styled`, which puts the previous settings back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import ParamSpec, TypeVar

import matplotlib as mpl

from lt2theory.report.frames import in_order

P = ParamSpec("P")
R = TypeVar("R")

INK = "#222222"
MUTED = "#6b6b6b"
GRID = "#e4e4e4"

# A report column is about 860 CSS pixels wide; at 100 pixels an inch this keeps text near 12 px.
WIDTH = 8.4

STYLE: Mapping[str, object] = MappingProxyType(
    {
        "figure.dpi": 100,
        "figure.facecolor": "white",
        "figure.constrained_layout.use": True,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 9.5,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.7,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "text.color": INK,
        "legend.fontsize": 9,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 5,
        "svg.fonttype": "path",
        "svg.hashsalt": "lt2theory",
        "savefig.facecolor": "white",
    }
)

# Okabe and Ito 2008, without yellow (too pale on white), darkest first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SOLID: tuple[float, tuple[float, ...]] = (0.0, ())
DASHES = (SOLID, (0.0, (5.0, 1.5)), (0.0, (1.5, 1.2)))

# Mixers keep their place in the list above wherever they are compared.
MIXERS = ("gdn", "window", "kda", "deltanet", "linear", "softmax")


@dataclass(frozen=True)
class ArmStyle:
    """How one arm is drawn everywhere.

    Attributes:
        colour: Line and fill colour.
        marker: Marker, different for every colour, so that the figure survives without colour.
        dash: Line style; changes once the colours are used up.
    """

    colour: str
    marker: str
    dash: tuple[float, tuple[float, ...]]


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function under the style sheet and restore the previous settings after it.

    Args:
        function: What draws or saves a figure.

    Returns:
        The same function, styled.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        # The stubs demand literal keys; matplotlib itself checks them when the sheet is applied.
        with mpl.rc_context(dict(STYLE)):  # type: ignore[arg-type]
            return function(*args, **kwargs)

    return wrapper


def arm_styles(labels: Iterable[object]) -> dict[str, ArmStyle]:
    """A look for every arm.

    Names of mixers get the place reserved for them; other arms take the remaining places in order
    of first occurrence. Build it once a report and hand it to every figure.

    Args:
        labels: Names of arms; repetitions do not count.

    Returns:
        A style for each distinct name, in order of first occurrence.
    """
    names = in_order(labels)
    places = {name: MIXERS.index(name) for name in names if name in MIXERS}
    taken = set(places.values())
    free = iter(place for place in range(len(names) + len(MIXERS)) if place not in taken)
    for name in names:
        if name not in places:
            places[name] = next(free)
    return {name: _style(places[name]) for name in names}


def _style(place: int) -> ArmStyle:
    colour = place % len(COLOURS)
    return ArmStyle(COLOURS[colour], MARKERS[colour], DASHES[place // len(COLOURS) % len(DASHES)])
