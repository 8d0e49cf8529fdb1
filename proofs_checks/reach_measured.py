"""W2 and W7 on Jacobians in float64: exact zeros outside the graph, non-zero inside."""

import itertools
from typing import Any

import numpy as np
import torch
from sympy import Symbol, diff, exp
from torch import Tensor

from lt2theory.analysis import layer_graph, measured_influence, reach, reach_graph
from lt2theory.mixers import Stream
from lt2theory.mixers.short_conv import short_convolution
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import softmax_attention
from proofs_checks.claim import Claim, Finding, claim

_WIDTH = 3


@claim(
    "W2",
    "measured reach with short convolutions",
    statement=(
        "Of looped softmax windows with a convolution of c taps on keys, values or queries, the "
        "last output's Jacobian is non-zero at exactly the tokens of W2."
    ),
    scope=(
        "random weights, two applications, w, c <= 3, keys, values and queries convolved one at a "
        "time (w >= 2 for keys and queries)"
    ),
    source="derivation",
    evidence="float64",
    expected="holds_with_conditions",
    hypotheses={
        "w >= 2 where keys or queries alone are convolved": {"keys, any w": {"least_window": 1}},
        "no path that is zero": {"a last tap that is zero": {"last_tap": 0.0}},
        "no underflow": {"scores so large that the softmax underflows": {"gain": 1e6}},
    },
    mutants={"a convolution on queries adds c - 1": {"queries_as_keys": True}},
)
def measured_convolutions(
    *,
    fast: bool,
    least_window: int = 2,
    last_tap: float = 1.0,
    gain: float = 1.0,
    queries_as_keys: bool = False,
) -> Finding:
    """Differentiate the last token's output; the graph says where it may not vanish."""
    smallest = float("inf")
    for on, window, c in itertools.product(("k", "v", "q"), (1, 2, 3), (1, 2, 3)):
        if window < least_window and on != "v":
            continue
        as_query = on == "q" and not queries_as_keys
        tokens = reach(2, 1, window, c, convolved_on="queries" if as_query else "keys_or_values")
        blocks = _conv_jacobian(on, window, c, 2, last_tap, gain)
        if np.flatnonzero(blocks).tolist() != list(range(int(tokens))):
            said = f"{on} convolved, w {window}, c {c}: {np.count_nonzero(blocks)}, not {tokens}"
            return Finding(False, counterexample=said)
        smallest = min(smallest, float(blocks[: int(tokens)].min()))
    return Finding(True, smallest)


@claim(
    "W2",
    "a window of one token hides its key and query",
    statement=(
        "A short convolution of c taps on keys adds N T (c - 1) tokens, and one on queries alone "
        "N T max(c - w, 0), for every w."
    ),
    correction=(
        "Corrected: at w = 1 a convolution on keys or queries adds nothing, because softmax over "
        "one score is 1 whatever the score; on values, or from w = 2 on, the formulas hold."
    ),
    scope="w = 1, N T = 1; the zero derivative holds for every score",
    source="derivation; corrects W2",
    evidence="symbolic",
    expected="refuted_as_stated",
    hypotheses={
        "a convolution on values": {"values": {"convolved": "v"}},
        "w >= 2": {"a window of two": {"scores": 2}},
    },
)
def one_token_window(*, fast: bool, convolved: str = "kq", scores: int = 1) -> Finding:
    """The derivative of the weight by its own score, and the op's derivative by the tokens."""
    s = [Symbol(f"s{i}", real=True) for i in range(scores)]
    total = sum(exp(x) for x in s)
    if diff(exp(s[0]) / total, s[0]).simplify() != 0:
        return Finding(False)
    for c in (2, 3):
        seen = {name: np.count_nonzero(_conv_jacobian(name, scores, c, 1)) for name in convolved}
        if set(seen.values()) != {1}:
            return Finding(False)
    said = (
        "w = 1, c = 2, N T = 1: the formulas give 2 tokens for keys and for queries; the one "
        "weight is e^s / e^s = 1, so the output is the token's own value: 1 token"
    )
    return Finding(True, counterexample=said)


@claim(
    "W2",
    "one linear or full layer makes it unbounded",
    statement="A window model with one linear or full layer depends on its whole past.",
    scope="LoopedModel at random weights: window(2) with GDN or full attention, L = 16",
    source="derivation",
    evidence="float64",
    hypotheses={
        "one layer is linear or full": {"windows only": {"others": ("window(2)",)}},
        "no path that is zero": {
            "a linear layer whose output projection is zero": {"silent": True}
        },
        "no underflow": {"scores so large that the softmax underflows": {"query_gain": 1e6}},
    },
)
def unbounded_layer(
    *,
    fast: bool,
    others: tuple[str, ...] = ("gdn", "full"),
    silent: bool = False,
    query_gain: float = 1.0,
) -> Finding:
    """Influence of every token on the last."""
    smallest = float("inf")
    for other in others:
        model = _model(f"window(2),{other}", num_layers=2)
        parameters = dict(model.named_parameters())
        parameters["blocks.1.mixer.q_proj.weight"].data *= query_gain
        if silent:
            parameters["blocks.1.mixer.o_proj.weight"].data.zero_()
        influence = measured_influence(model, _tokens(16), 15)
        if not influence.support.all():
            return Finding(False, counterexample=f"{other}: {influence.reach[0]} of 16 tokens")
        smallest = min(smallest, float(influence.norm.min()))
    return Finding(True, smallest)


@claim(
    "W7",
    "the support of a measured Jacobian is the graph of W1",
    statement=(
        "The Jacobian of a looped window model's output with respect to the embeddings is exactly "
        "zero outside W1's graph, and non-zero inside."
    ),
    scope="LoopedModel at random weights, all w <= 4 and N T <= 6, last token and token N T (w-1)",
    source="derivation",
    evidence="float64",
    hypotheses={
        "no path that is zero": {"output projections start at zero": {"silent": True}},
        "no underflow": {"scores so large that the softmax underflows": {"query_gain": 1e6}},
    },
    mutants={
        "windows of w + 1 tokens": {"graph_window": 1},
        "loops not counted": {"loops_count": False},
    },
)
def measured_support(
    *,
    fast: bool,
    silent: bool = False,
    query_gain: float = 1.0,
    graph_window: int = 0,
    loops_count: bool = True,
) -> Finding:
    """Every output coordinate is pulled back, so that nothing is missed by chance."""
    smallest = float("inf")
    pairs = [(n, t) for n, t in itertools.product(range(1, 7), repeat=2) if n * t <= 6]
    if fast:
        pairs = [(1, 1), (2, 2), (1, 3)]
    for (layers, loops), window in itertools.product(pairs, range(1, 5)):
        length = layers * loops * (window - 1) + 3
        one = layer_graph(length, window + graph_window)
        graph = reach_graph([one] * layers, loops if loops_count else 1)
        model = _model("window", num_layers=layers, num_loops=loops, window=window)
        for name, parameter in model.named_parameters():
            if "q_proj" in name:
                parameter.data *= query_gain
            if silent and "o_proj" in name:
                parameter.data.zero_()
        for position in sorted({length - 1, max(0, length - 3)}):
            influence = measured_influence(model, _tokens(length), position, chunk=8)
            expected = graph[position, : position + 1][::-1]
            if not np.array_equal(influence.support[0], expected):
                said = f"N {layers}, T {loops}, w {window}, token {position + 1}"
                return Finding(False, counterexample=f"{said}: reach {influence.reach[0]}")
            smallest = min(smallest, float(influence.norm[0][expected].min()))
    return Finding(True, smallest, scope="(N, T) = (1,1), (2,2), (1,3); w <= 4" if fast else None)


def _conv_jacobian(
    on: str, window: int, c: int, applications: int, last_tap: float = 1.0, gain: float = 1.0
) -> np.ndarray:
    """Size of the last output's derivative by the token at distance 0, 1, ... in the past."""
    generator = torch.Generator().manual_seed(4)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    length = applications * (window + c) + 2
    stream = Stream(torch.arange(length)[None])
    x = draw(1, length, _WIDTH).requires_grad_()
    h: Tensor = x
    for _ in range(applications):
        parts = {name: h @ draw(_WIDTH, _WIDTH) / 2 for name in "qkv"}
        taps = draw(_WIDTH, 1, c)
        taps[..., 0] *= last_tap  # the tap on the furthest token
        parts[on] = short_convolution(parts[on], taps, stream)
        parts["q"] = gain * parts["q"]
        q, k, v = (parts[name].unsqueeze(2) for name in "qkv")
        h = h + softmax_attention(q, k, v, window=window, backend="reference")[:, :, 0]
    size = np.zeros(length)
    for i in range(_WIDTH):
        (gradient,) = torch.autograd.grad(h[0, -1, i], x, retain_graph=True)
        size = np.maximum(size, gradient[0].abs().amax(-1).numpy())
    return size[::-1]


def _model(pattern: str, **fields: Any) -> LoopedModel:
    config = {"vocab_size": 5, "width": 4, "num_heads": 1, "ffn_width": 4, "init_std": 0.5}
    merged = {**config, "pattern": pattern, "backend": "reference", **fields}
    return LoopedModel(LoopedConfig.model_validate(merged)).double()


def _tokens(length: int) -> Tensor:
    return torch.randint(0, 5, (1, length), generator=torch.Generator().manual_seed(1))


CLAIMS: tuple[Claim, ...] = (
    measured_convolutions,
    one_token_window,
    unbounded_layer,
    measured_support,
)
