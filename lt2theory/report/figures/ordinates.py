"""Logarithmic ordinates that can be read whatever they span."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullLocator,
    ScalarFormatter,
    StrMethodFormatter,
)


def log_ordinate(axes: Axes, values: np.ndarray) -> None:
    """A logarithmic ordinate with plain numbers at its ticks; linear if a value is not above 0.

    Within a decade the ticks lie evenly, with equally many decimals: powers of ten may lie outside.

    Args:
        axes: The panel.
        values: What is drawn; what is not finite does not count.
    """
    known = values[np.isfinite(values)]
    if not len(known) or known.min() <= 0:
        return
    low, high = float(known.min()), float(known.max())
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    if high < 10 * low:
        air = max(high / low, 1.05) ** 0.08
        axes.set_ylim(low / air, high * air)
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    else:
        subs = (1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
