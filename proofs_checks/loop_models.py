"""L2 and L5 on the project's own model: the product in its residual stream, and its caches."""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from lt2theory.mixers import AttentionMixer, Slot, Stream
from lt2theory.models import LoopCache, LoopedConfig, LoopedModel
from lt2theory.models.block import AnyMixer, Block, Mix
from lt2theory.ops.factors import Factors
from proofs_checks.cache_models import LINEAR
from proofs_checks.claim import Claim, Finding, claim

Key = Literal["both", "layer", "loop"]
"""What the caches that are to be shared are keyed by."""
_TOLERANCE = 1e-9
"""Far above float64's rounding of these short sums, far below what a wrong state changes."""


@claim(
    "L2",
    "a model's residual stream",
    statement=(
        "LoopedModel has the residual stream of a model whose loop tau applies, "
        "at every token, the dense product of the transitions of loops 1..tau to one state; and "
        "no position's derivative with respect to a later token is other than exactly zero."
    ),
    scope="DeltaNet, GDN and KDA at random weights and loop gates, N = 2, T = 3, L = 6 (fast: GDN)",
    source="derivation; DeltaProduct, arXiv 2502.10297",
    evidence="float64",
    hypotheses={
        "loop_state = accumulate": {"rescan": {"loop_state": "rescan"}},
        "later loops stand on the left": {"later loops on the right": {"later_on_the_left": False}},
    },
    where="any loop gates rho",
)
def model_is_the_product(
    *,
    fast: bool,
    loop_state: Literal["accumulate", "rescan"] = "accumulate",
    later_on_the_left: bool = True,
) -> Finding:
    """Drive the model's blocks with dense products, and compare with the model."""
    worst = 0.0
    for pattern in ("gdn",) if fast else ("deltanet", "gdn", "kda"):
        model = _model(pattern, num_loops=3, loop_state=loop_state)
        torch.nn.init.normal_(model.loop_gate, generator=torch.Generator().manual_seed(3))
        h = model.embed(_tokens(6)).detach().requires_grad_()
        out = model.run_embedded(h)
        (future,) = torch.autograd.grad(out[:, 2].sum(), h)
        if future[:, 3:].any() or not future[:, :3].any():
            return Finding(False, counterexample=f"{pattern}: a derivative by the future")
        expected = _by_products(model, h.detach(), later_on_the_left)
        worst = max(worst, float((out.detach() - expected).abs().max()))
    return Finding(worst < _TOLERANCE, _TOLERANCE - worst)


@claim(
    "L5",
    "streaming equals the parallel form",
    statement="Fed token by token, LoopedModel gives the logits of the parallel form.",
    scope=(
        f"{', '.join(LINEAR)}, window and full, rescan and accumulate, N = 2, T = 2, L = 8, at "
        "random weights (fast: GDN and window, L = 4)"
    ),
    source="derivation; LT2's public code keeps one cache a layer",
    evidence="float64",
    expected="holds_with_conditions",
    hypotheses={
        "every cache keyed by its layer": {"keyed by loop alone": {"key": "loop"}},
        "and by its loop": {"keyed by layer alone": {"key": "layer"}},
    },
    where="caches: the state, its stabiliser, the history of a short convolution, keys and values",
)
def streaming_is_parallel(*, fast: bool, key: Key = "both") -> Finding:
    """Every mixer under every semantics that it has."""
    worst = 0.0
    for pattern, loop_state in _arms(fast):
        model = _model(pattern, num_loops=2, loop_state=loop_state)
        worst = max(worst, _streaming_error(model, key, _NAMES, 4 if fast else 8))
    return Finding(worst < _TOLERANCE, _TOLERANCE - worst)


@claim(
    "L5",
    "each kind of cache needs its own key",
    statement=(
        "Sharing only the matrix state, only the convolution history, or only the keys and values "
        "between the loops changes the logits, and so does sharing it between the layers."
    ),
    scope=(
        "GDN under rescan and accumulate, window and full attention, N = 2, T = 2, L = 8, at "
        "random weights (fast: rescan, window, L = 4)"
    ),
    source="derivation; LT2's public code keeps one cache a layer",
    evidence="float64",
    hypotheses={
        "a convolution of at least 2 taps": {"one tap": {"conv_width": 1}},
        "a window of at least 2 tokens": {"a window of one token": {"window": 1}},
        "T >= 2 (for the loops)": {"one loop": {"num_loops": 1}},
        "N >= 2 (for the layers)": {"one layer": {"num_layers": 1}},
        "weights in general position": {"output projections of zero": {"general": False}},
    },
    mutants={"nothing is shared": {"keys": ("both",)}},
)
def every_kind_counts(
    *,
    fast: bool,
    keys: tuple[Key, ...] = ("layer", "loop"),
    conv_width: int = 4,
    window: int = 3,
    num_loops: int = 2,
    num_layers: int = 2,
    general: bool = True,
) -> Finding:
    """Share one kind of cache at a time and keep the others apart."""
    sizes = {"num_loops": num_loops, "num_layers": num_layers}
    sizes |= {"conv_width": conv_width, "window": window}
    least = float("inf")
    arms: list[tuple[str, str, tuple[str, ...]]] = [("gdn", "rescan", ("state",))]
    arms += [("gdn", "rescan", ("conv",))]
    arms += [("window", "rescan", ("keys", "values"))]
    if not fast:
        arms += [("gdn", "accumulate", ("state",)), ("gdn", "accumulate", ("conv",))]
        arms += [("full", "rescan", ("keys", "values"))]
    for pattern, loop_state, names in arms:
        model = _model(pattern, loop_state=loop_state, **sizes)
        for name, weight in model.named_parameters():
            if name.endswith("o_proj.weight") and not general:
                torch.nn.init.zeros_(weight)
        for shared in keys:
            least = min(least, _streaming_error(model, shared, names, 4 if fast else 8))
            if least <= 1e-6:
                said = f"{pattern}, {loop_state}: {names[0]} shared by {shared}"
                return Finding(False, least - 1e-6, said)
    return Finding(True, least - 1e-6)


_NAMES = ("state", "log_max", "conv", "keys", "values")


class _SharedSlot(Slot):
    """A slot some of whose tensors lie in a dictionary that several slots have in common."""

    def __init__(self, shared: dict[str, Tensor | None], names: tuple[str, ...]) -> None:
        object.__setattr__(self, "_shared", shared)
        object.__setattr__(self, "_shared_names", names)
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        if name in _NAMES and name in object.__getattribute__(self, "_shared_names"):
            return object.__getattribute__(self, "_shared").get(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Tensor | None) -> None:
        if name in object.__getattribute__(self, "_shared_names"):
            object.__getattribute__(self, "_shared")[name] = value
        else:
            object.__setattr__(self, name, value)


class _SharingCache(LoopCache):
    """A cache whose slots are updated in place, so that they can share their tensors."""

    def working_slots(self) -> dict[tuple[int, int], Slot]:
        return self.slots


def _streaming_error(model: LoopedModel, key: Key, names: tuple[str, ...], length: int) -> float:
    """Largest difference of logits, with caches keyed by `both`, by `layer` or by `loop` alone."""
    tokens = _tokens(length)
    plain = model.new_cache(1)
    fields = {n: getattr(plain, n) for n in ("config", "model_id", "batch_size", "device", "dtype")}
    cache = _SharingCache(**fields)
    boxes: dict[object, dict[str, Tensor | None]] = {}
    for layer, loop in list(cache.slots):
        place = {"both": (layer, loop), "layer": layer, "loop": loop}[key]
        cache.slots[layer, loop] = _SharedSlot(boxes.setdefault(place, {}), names)
    with torch.no_grad():
        parallel = model(tokens)
        streamed = torch.cat([model(tokens[:, t : t + 1], cache) for t in range(length)], 1)
    return float((parallel - streamed).abs().max())


def _arms(fast: bool) -> Iterator[tuple[str, str]]:
    linear = ("gdn",) if fast else LINEAR
    yield from ((pattern, state) for state in ("rescan", "accumulate") for pattern in linear)
    for pattern in ("window",) if fast else ("window", "full"):
        yield pattern, "rescan"


def _model(pattern: str, **fields: Any) -> LoopedModel:
    config = {"num_layers": 2, "num_heads": 2, "width": 8, "vocab_size": 5, "window": 3}
    merged = {**config, "pattern": pattern, "backend": "reference", "init_std": 0.5, **fields}
    return LoopedModel(LoopedConfig.model_validate(merged)).double()


def _tokens(length: int) -> Tensor:
    return torch.randint(0, 5, (1, length), generator=torch.Generator().manual_seed(2))


def _by_products(model: LoopedModel, h: Tensor, later_on_the_left: bool) -> Tensor:
    """Run the model's blocks and loop gates with dense products of all factors so far."""
    stream = Stream(torch.arange(h.shape[1]).expand(h.shape[:2]))
    earlier: dict[int, list[Factors]] = {}

    def mix_at(layer: int) -> Mix:
        def mix(mixer: AnyMixer, x: Tensor) -> Tensor:
            assert not isinstance(mixer, AttentionMixer), "linear patterns only"
            earlier.setdefault(layer, []).append(mixer.prepare(x, stream))
            return mixer.output(_dense(earlier[layer], later_on_the_left), x)

        return mix

    with torch.no_grad():
        for loop in range(model.config.num_loops):
            start = h
            for layer, block in enumerate(model.blocks):
                assert isinstance(block, Block), "the model is made of blocks"
                h = block(h, mix_at(layer))
            h = h + model.loop_gate[loop] * start
    return h


def _dense(factors: list[Factors], later_on_the_left: bool) -> Tensor:
    """Outputs of one state to which each token applies one dense affine map."""
    last = factors[-1]
    length, heads, width = last.q.shape[1:]
    state = torch.zeros(heads, width, last.v.shape[-1], dtype=torch.float64)
    outputs = []
    for t in range(length):
        through = torch.eye(width, dtype=torch.float64).expand(heads, width, width)
        written = torch.zeros_like(state)
        for own in factors if later_on_the_left else factors[::-1]:
            assert own.beta is not None, "delta rules only"
            k, v, beta = own.k[0, t, 0], own.v[0, t, 0], own.beta[0, t, 0, :, None, None]
            decay = torch.zeros(heads) if own.log_decay is None else own.log_decay[0, t, 0]
            alpha = decay.exp().reshape(heads, 1, -1)
            erase = torch.eye(width, dtype=torch.float64) - beta * k[:, :, None] * k[:, None]
            through = (erase * alpha) @ through
            written = (erase * alpha) @ written + beta * k[:, :, None] * v[:, None]
        state = through @ state + written
        outputs.append(width**-0.5 * torch.einsum("hk,hkv->hv", last.q[0, t], state))
    return torch.stack(outputs)[None]


CLAIMS: tuple[Claim, ...] = (model_is_the_product, streaming_is_parallel, every_kind_counts)
