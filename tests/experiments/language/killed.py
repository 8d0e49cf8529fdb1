"""A session whose process kills itself during a step: python -m ... CORPUS ROOT STEP."""

import sys
from pathlib import Path

import torch

from lt2theory.experiments.language.arms import BASE, language_cells
from lt2theory.experiments.language.cells import LanguageCells
from lt2theory.experiments.language.session import carry_out_language
from lt2theory.experiments.serial import SerialSession
from tests.experiments.language.cut import cut, make_materials
from tests.experiments.linearization.killed import kill_in


def small_cells() -> LanguageCells:
    """Two cells of three steps."""
    known = {cell.name: cell for cell in language_cells()}
    return tuple(cut(known[name], steps=3) for name in (f"{BASE}-s0", "loops-1-s0"))


def main() -> None:
    torch.set_num_threads(1)
    kill_in(int(sys.argv[3]))
    cells = small_cells()
    materials = make_materials(Path(sys.argv[1]), Path(sys.argv[2]))
    carry_out_language(cells, cells, SerialSession(), materials)


if __name__ == "__main__":
    main()
