"""What was predicted of the study before it ran; nothing here saw a result."""

from lt2theory.experiments.language.arms import BASE, FULL, GDN, LAYERS
from lt2theory.experiments.language.rules import (
    MARGIN,
    alike,
    apart,
    caches,
    failures,
    fewer,
    sinks,
    speeds,
    subtracts,
)
from lt2theory.experiments.study_prediction import EXPECTED, Prediction

_APART = "The paired difference in bits per byte has this sign, its 95 % interval apart from 0"
_ALIKE = f"The 95 % interval of the difference lies within {100 * MARGIN:.0f} % of the bits"


def predictions() -> tuple[Prediction, ...]:
    """All predictions, in the order of the questions.

    Returns:
        The predictions.
    """
    return (*_of_ratios(), *_of_gates_and_states(), *_of_stability(), *_of_loops())


def _of_ratios() -> tuple[Prediction, ...]:
    mixed = ("ratio-1to1", BASE, "ratio-1to12")
    return (
        Prediction(
            "mixed-best",
            "Every mixture (1:1, 1:4, 1:12) spends fewer bits than softmax alone.",
            EXPECTED,
            f"{_APART}; three of them.",
            lambda table: fewer(table, [(arm, FULL) for arm in mixed]),
        ),
        Prediction(
            "quarter-enough",
            "1:4 spends fewer bits than GDN alone, and no more than 1 % above 1:1.",
            EXPECTED,
            f"{_APART}; and the interval of 1:4 over 1:1 ends below 1 %.",
            lambda table: fewer(table, [(BASE, GDN), (BASE, "ratio-1to1")], lines=(0.0, MARGIN)),
        ),
        Prediction(
            "cache-by-softmax",
            "The fewer softmax layers, the smaller the cache at 16,384 bytes; that of GDN alone "
            "is the same at 1,024.",
            "implied by C2 (bytes of the models' caches)",
            "Bytes in that order, and equal.",
            caches,
            provided="every model of these sizes, whatever its weights",
        ),
        Prediction(
            "speed-by-softmax",
            "The fewer softmax layers, the faster decoding after 16,384 bytes, eight rows.",
            EXPECTED,
            "Tokens a second of the five ratios, means of seeds, in that order.",
            speeds,
        ),
        Prediction(
            "bookend-alike",
            "Softmax layers at both ends do as well as spread ones.",
            EXPECTED,
            f"{_ALIKE} of 1:4.",
            lambda table: alike(table, "placement-bookend", BASE),
        ),
        Prediction(
            "depth-over-loops",
            "Mixing by depth spends fewer bits than attention that narrows from loop to loop.",
            EXPECTED,
            f"{_APART}.",
            lambda table: fewer(table, [(BASE, "placement-loop-windows")]),
        ),
    )


def _of_gates_and_states() -> tuple[Prediction, ...]:
    gated = (("gate-1to0", FULL), ("gate-1to4", BASE))
    return (
        Prediction(
            "gate-sink",
            "The output gate lowers the largest sink mass of the softmax model to less than half.",
            EXPECTED,
            "Largest mean share of attention on the first token over places, of the last reading: "
            "the highest gated seed below half of the lowest plain one; broken where the lowest is "
            "above half of the highest.",
            sinks,
        ),
        Prediction(
            "gate-rms",
            "The output gate lowers the residual stream after the last loop, with 1:0 and 1:4.",
            EXPECTED,
            "Median RMS of the last reading: all gated seeds below all plain ones.",
            lambda table: apart(table, gated, "rms", loop=3),
        ),
        Prediction(
            "gate-bits",
            "The output gate saves bits, with 1:0 and 1:4.",
            EXPECTED,
            f"{_APART}; both.",
            lambda table: fewer(table, gated),
        ),
        Prediction(
            "rescan-suffices",
            "GDN that rescans spends at most 1 % more bits than GDN that accumulates.",
            EXPECTED,
            "The 95 % interval of the paired difference ends below 1 %; broken where it begins "
            "above.",
            lambda table: fewer(table, [(GDN, "state-accumulate")], lines=(MARGIN,)),
        ),
    )


def _of_stability() -> tuple[Prediction, ...]:
    return (
        Prediction(
            "retnet-fails",
            "At four times the rate every seed of RetNet diverges or has a spike or a step that is "
            "not finite, and no seed of GDN.",
            EXPECTED,
            "Counts of the runs.",
            failures,
        ),
        Prediction(
            "retnet-larger",
            "At the common rate RetNet's residual stream after the last loop is larger than GDN's.",
            EXPECTED,
            "Median RMS of the last reading: all seeds of GDN below all of RetNet.",
            lambda table: apart(table, [(GDN, "stability-retnet")], "rms", loop=3),
        ),
    )


def _of_loops() -> tuple[Prediction, ...]:
    return (
        Prediction(
            "loops-pay",
            "With equal parameters four loops spend fewer bits than two, and two than one.",
            EXPECTED,
            f"{_APART}; both.",
            lambda table: fewer(table, [(BASE, "loops-2"), ("loops-2", "loops-1")]),
        ),
        Prediction(
            "depth-pays-more",
            f"With equal products {4 * LAYERS} blocks without loops spend fewer bits than "
            f"{LAYERS} with four.",
            EXPECTED,
            f"{_APART}.",
            lambda table: fewer(table, [("loops-1-deep", BASE)]),
        ),
        Prediction(
            "loop-gate-alike",
            "A loop gate is worth less than 1 %.",
            EXPECTED,
            f"{_ALIKE} without.",
            lambda table: alike(table, BASE, "loop-gate-none"),
        ),
        Prediction(
            "loop-gate-subtracts",
            "The loop gate learns to take from the stream what entered the loop: its mean over "
            "channels is negative in loops 2 to 4.",
            EXPECTED,
            "Every seed of 1:4, each of the three loops.",
            subtracts,
        ),
    )
