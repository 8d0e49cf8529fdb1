"""What was predicted of the studies of linearization before they ran; nothing here saw a result."""

from collections.abc import Sequence

import pandas as pd

from lt2theory.experiments.linearization.fits import fitted, size_points
from lt2theory.experiments.linearization.studies import study_cells
from lt2theory.experiments.linearization.views import (
    KL,
    Place,
    Pooled,
    below,
    ended,
    mean_share,
    pooled,
)
from lt2theory.experiments.study_prediction import EXPECTED, Judged, Prediction
from lt2theory.linearize.starts import STUDENT_MIXERS

WANTED = 0.93
"""Share of the teacher's accuracy above the floor that the paper's hybrid keeps."""
_NEEDLE = "number"
_OPEN = "broken by one, open until all cells that this is about have ended"


def predictions() -> tuple[Prediction, ...]:
    """All predictions, in the order of the studies.

    Returns:
        The predictions.
    """
    return (*_of_mixers(), *_of_hybrids(), *_of_the_rest())


def _of_mixers() -> tuple[Prediction, ...]:
    return (
        Prediction(
            "gated-delta-nearest",
            "Gated delta rules (GDN, KDA) come nearer to SmolLM2 than linear attention and RetNet.",
            EXPECTED,
            "Each of the four differences in divergence has its sign, intervals apart.",
            lambda table: _all_below(
                ended(table, "mixers"),
                [(a, b) for a in ("gdn", "kda") for b in ("linear_attention", "retnet")],
            ),
        ),
        Prediction(
            "needles-fall",
            "Trained on windows of 512, no student keeps half of its needles from 256 to 4096 "
            "tokens.",
            EXPECTED,
            "Of the seven, those that find half of the numbers at 256 find less than half as many "
            f"at 4096; {_OPEN}.",
            _needles_fall,
        ),
        Prediction(
            "tiled-worse",
            "A wrong expansion of key-value heads leaves mLSTM and GDN further from the teacher.",
            EXPECTED,
            "Both differences in divergence have this sign, intervals apart.",
            lambda table: _all_below(
                ended(table, "mixers"), [(m, f"{m}-tiled") for m in ("mlstm", "gdn")]
            ),
        ),
        Prediction(
            "mlstm-not-first",
            "With heads expanded rightly mLSTM is not ahead of GDN at 135M, as was published with "
            "GDN's heads scrambled and mLSTM's not.",
            EXPECTED,
            "The divergence of mLSTM does not lie below that of GDN.",
            lambda table: _not_below(ended(table, "mixers"), "mlstm", "gdn"),
        ),
    )


def _of_hybrids() -> tuple[Prediction, ...]:
    return (
        Prediction(
            "quarter-93",
            "With a quarter of its layers kept, chosen by divergence, the looped student has 93 % "
            "of its teacher's accuracy above the floor.",
            EXPECTED,
            "Mean share over cloze, needles and MQAR at which the teacher is above the floor.",
            _quarter,
        ),
        Prediction(
            "hybrids-nearer",
            "Every hybrid comes nearer to the teacher than the all-linear student.",
            EXPECTED,
            "All three differences in divergence have this sign, intervals apart.",
            lambda table: _all_below(
                ended(table, "hybrids"),
                [(arm, "linear") for arm in ("selected", "uniform", "bookend")],
            ),
        ),
        Prediction(
            "cache-constant",
            "The cache of the all-linear student does not grow with the text.",
            "implied by C3 (decode memory of the linear mixers does not grow)",
            f"Bytes at the longest length equal those at the shortest; {_OPEN}.",
            _cache,
            provided="every model without softmax layers, whatever its weights",
        ),
    )


def _of_the_rest() -> tuple[Prediction, ...]:
    return (
        Prediction(
            "copying-pays",
            "A student whose projections are copied ends nearer to the teacher than one drawn.",
            EXPECTED,
            "The divergence of `default` lies below that of `nothing-copied`, intervals apart.",
            lambda table: _all_below(ended(table, "starts"), [("default", "nothing-copied")]),
        ),
        Prediction(
            "more-tokens",
            "More tokens bring every mixer nearer, at every size.",
            EXPECTED,
            f"In each fit the interval of the exponent of the tokens lies above 0; {_OPEN}.",
            _budgets,
        ),
        Prediction(
            "delta-recalls",
            "Without decay, a delta write recalls more of 16 pairs than an additive one.",
            EXPECTED,
            "Shares of MQAR's queries among values, intervals apart.",
            _delta_recalls,
        ),
        Prediction(
            "decay-helps",
            "A decay a head brings both writes nearer to the teacher than none.",
            EXPECTED,
            "Both differences in divergence have this sign, intervals apart.",
            lambda table: _all_below(
                ended(table, "gates"),
                [(f"{w}-head", f"{w}-none") for w in ("additive", "delta")],
            ),
        ),
        Prediction(
            "instruction-needles",
            "Neither tuning nor distillation on conversations finds more needles at 1024 tokens.",
            EXPECTED,
            "Neither arm's share of numbers lies above that of `none`.",
            _instruction,
        ),
    )


def _said(named: Sequence[tuple[str, Pooled | None]]) -> str:
    found = [f"{name} {one.said}" for name, one in named if one is not None]
    return (", ".join(found) or "Not measured yet") + "."


def _all_below(rows: pd.DataFrame, pairs: Sequence[tuple[str, str]], place: Place = KL) -> Judged:
    found = tuple(below(pooled(rows, a, place), pooled(rows, b, place)) for a, b in pairs)
    names = dict.fromkeys(name for pair in pairs for name in pair)
    return Judged(found, _said([(name, pooled(rows, name, place)) for name in names]))


def _not_below(rows: pd.DataFrame, one: str, other: str) -> Judged:
    a, b = pooled(rows, one, KL), pooled(rows, other, KL)
    known = a is not None and b is not None
    finding = (below(a, b) is not True) if known else None
    return Judged((finding,), _said([(one, a), (other, b)]))


def _missing(
    table: pd.DataFrame, study: str, arms: Sequence[str] | None = None
) -> tuple[None, ...]:
    """An open finding while a cell of a study, or of some of its arms, has not ended."""
    done = set(table[table["status"] == "done"]["cell"])
    about = [cell for cell in study_cells(study) if arms is None or cell.arm in arms]
    return (None,) if any(cell.name not in done for cell in about) else ()


def _needles_fall(table: pd.DataFrame) -> Judged:
    rows = ended(table, "mixers")
    findings: list[bool | None] = []
    said: list[tuple[str, Pooled | None]] = []
    for mixer in STUDENT_MIXERS:
        near, far = (
            pooled(rows, mixer, Place("needle", "found", kind=_NEEDLE, length=length))
            for length in (256, 4096)
        )
        if near is None or far is None:
            findings.append(None)
        elif near.value >= 0.5:
            findings.append(far.value < near.value / 2)
            said += [(f"{mixer} at 256", near), ("at 4096", far)]
    findings += _missing(table, "mixers", STUDENT_MIXERS)
    return Judged(tuple(findings) or (None,), _said(said))


def _quarter(table: pd.DataFrame) -> Judged:
    found = mean_share(ended(table, "hybrids"), "selected")
    if found is None:
        return Judged((None,), _said([]))
    finding = True if found.low >= WANTED else False if found.high < WANTED else None
    return Judged((finding,), _said([(f"Over {found.n} probes", found)]))


def _cache(table: pd.DataFrame) -> Judged:
    rows = ended(table, "hybrids")
    own = rows[(rows["arm"] == "linear") & (rows["metric"] == "cache_mib")]
    own = own[own["model"] == "student"]
    if own["length"].nunique() < 2:
        return Judged((None,), _said([]))
    values = own.groupby("length")["value"].mean()
    ends = [(f"{length} tokens", Pooled(float(v), float("nan"), float("nan")))
            for length, v in values.items()]  # fmt: skip
    alike = bool(values.iloc[0] == values.iloc[-1])
    return Judged((alike, *_missing(table, "hybrids", ["linear"])), "MiB: " + _said(ends))


def _budgets(table: pd.DataFrame) -> Judged:
    points = size_points(ended(table, "sizes"))
    findings: list[bool | None] = []
    said: list[tuple[str, Pooled | None]] = []
    for mixer, own in points.groupby("mixer", sort=False):
        fit = fitted(own)
        if fit is None:
            findings.append(None)
            continue
        b = fit.budget
        findings.append(True if b.low > 0 else False if b.high < 0 else None)
        said.append((str(mixer), b))
    findings += _missing(table, "sizes")
    return Judged(tuple(findings) or (None,), _said(said))


def _delta_recalls(table: pd.DataFrame) -> Judged:
    place = Place("mqar", "recalled_among_values", length=16)
    return _all_below(ended(table, "gates"), [("additive-none", "delta-none")], place)


def _instruction(table: pd.DataFrame) -> Judged:
    rows = ended(table, "instruction")
    place = Place("needle", "found", kind=_NEEDLE, length=1024)
    named = [(arm, pooled(rows, arm, place)) for arm in ("none", "tuning", "distillation")]
    base = named[0][1]
    findings = tuple(
        None if base is None or one is None else below(base, one) is not True
        for _, one in named[1:]
    )
    return Judged(findings, _said(named))
