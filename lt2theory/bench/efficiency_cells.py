"""What `lt2 bench efficiency` measures: arms, forms, cells, and in which order."""

import itertools
from dataclasses import dataclass
from typing import Literal, get_args

from lt2theory.bench.decode import step_bytes
from lt2theory.bench.model import COPIES
from lt2theory.bench.prefill import prefill_flops
from lt2theory.bench.train_step import PRODUCTS
from lt2theory.models import LoopedConfig, find_preset
from lt2theory.models.cache_told import told_bytes
from lt2theory.models.parameters import meta_model, parameter_count
from lt2theory.models.preset import changed
from tasks.names import unknown_name

Form = Literal["looped", "same-parameters", "same-depth"]
Phase = Literal["decode", "prefill"]

ARMS = {
    "full": "lt2-1.3b-full",
    "gdn": "lt2-1.3b-gdn",
    "nsa": "lt2-1.3b-nsa",
    "dsa": "lt2-1.3b-dsa",
    "full-gdn": "lt2-1.3b-full-gdn",
    "gdn-dsa": "lt2-1.3b-gdn-dsa",
}
"""Presets by arm: the looped transformer, LT2-linear, LT2-sparse twice and both hybrids."""
FORMS: tuple[Form, ...] = get_args(Form)
"""As the preset has it; its parameters used once (T = 1); as many layers as it applies, untied."""
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
TOLD_FIRST = (1024, 8192, 32768, 131072)
"""Lengths that show the cliff."""
AT_ONCE = 16384
"""Tokens of all rows that one call of a prefill reads into the cache."""


@dataclass(frozen=True)
class Cell:
    """One measurement.

    Attributes:
        arm: A key of `ARMS`.
        form: The preset as it is, or a counterpart without loops.
        phase: Reading a prompt, or one more token a row after it.
        batch: Rows.
        length: Tokens of a row: of the prompt, or already in the cache.
    """

    arm: str
    form: Form
    phase: Phase
    batch: int
    length: int

    @property
    def chunk(self) -> int:
        """Tokens of a row that a prefill reads at a time."""
        return min(self.length, max(1, AT_ONCE // self.batch))


def config_of(arm: str, form: Form) -> LoopedConfig:
    """The model of some cells.

    Args:
        arm: A key of `ARMS`.
        form: As the preset has it, or without loops.

    Returns:
        Its configuration.
    """
    return without_loops(find_preset(ARMS[arm]).config, form)


def without_loops(config: LoopedConfig, form: Form) -> LoopedConfig:
    """A counterpart of a looped model.

    Args:
        config: Its configuration, of a pattern that is the same in all loops.
        form: `looped` changes nothing; `same-parameters` has one loop; `same-depth` as many layers
            as the looped model applies, each with weights of its own, in the same order.

    Returns:
        The counterpart's.
    """
    if form == "looped":
        return config
    if form == "same-parameters":
        return changed(config, num_loops=1)
    pattern = ",".join(spec.written for loop in config.loops for spec in loop)
    depth = config.num_layers * config.num_loops
    return changed(config, num_loops=1, num_layers=depth, pattern=pattern)


def all_cells(
    arms: tuple[str, ...],
    forms: tuple[Form, ...],
    phases: tuple[Phase, ...],
    batches: tuple[int, ...],
    lengths: tuple[int, ...],
) -> list[Cell]:
    """All combinations, the most telling ones first.

    First come the looped models: decoding 8 rows (1 and 32 in the second turn), where attention
    meets its cliff, and prompts of one row. Then the counterparts, and all else at last. Within a
    turn the cells of one model stand together, since making it takes seconds.

    Args:
        arms: Keys of `ARMS`.
        forms: Of `FORMS`.
        phases: Decode, prefill or both.
        batches: Rows.
        lengths: Tokens of a row.

    Returns:
        The cells.

    Raises:
        ValueError: There is no such arm.
    """
    for arm in arms:
        if arm not in ARMS:
            raise ValueError(unknown_name("arms", arm, ARMS))
    cells = itertools.starmap(Cell, itertools.product(arms, forms, phases, batches, lengths))

    def place(cell: Cell) -> tuple[int, ...]:
        order = (arms.index(cell.arm), forms.index(cell.form), phases.index(cell.phase))
        return (_turn(cell), *order, cell.batch, cell.length)

    return sorted(dict.fromkeys(cells), key=place)


def _turn(cell: Cell) -> int:
    """0 for what is wanted most."""
    if cell.length not in TOLD_FIRST:
        return 3
    small = cell.phase == "decode" or cell.length <= 32768
    own = cell.batch == (8 if cell.phase == "decode" else 1)
    if cell.form == "looped":
        return 0 if own and small else 1 if small else 2
    return 1 if own and small and cell.length >= 8192 else 2


def floor_ms(config: LoopedConfig, cell: Cell) -> float:
    """The bytes of a decode step, or the products of a prefill, at an H200's measured rates.

    Args:
        config: The model.
        cell: The measurement.

    Returns:
        Milliseconds.
    """
    model = meta_model(config)
    if cell.phase == "decode":
        return 1e3 * step_bytes(model, cell.batch, cell.length) / COPIES
    return 1e3 * prefill_flops(model, cell.batch, cell.length) / PRODUCTS


def cache_bytes(config: LoopedConfig, cell: Cell) -> int:
    """What the cache holds (claim C2).

    Args:
        config: The model.
        cell: The measurement.

    Returns:
        Bytes, in bfloat16 but for the states.
    """
    return sum(told_bytes(config, cell.batch, cell.length).values())


def weight_bytes(config: LoopedConfig) -> int:
    """What the weights take in bfloat16.

    Args:
        config: The model.

    Returns:
        Bytes.
    """
    return 2 * parameter_count(config)
