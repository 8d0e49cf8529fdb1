# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Where a program stands in a grid that has one axis.

CUDA takes 2^31 - 1 programs along x and 65,535 along y and z, which rows times heads exceed. So
whatever grows with the data lies along x, one line of programs behind the other: in the order in
which a grid of more axes would run, so that the programs that share what L2 holds stay neighbours.
Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def place_of(line):
    """The program's place within its line of `line` programs, and the number of that line."""
    at = tl.program_id(0)
    return at % line, (at // line).to(tl.int64)
