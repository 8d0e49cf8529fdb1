"""S3: the loop gate that starts shut."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lt2theory.mixers import Stream
from lt2theory.models import LoopedModel, toys
from lt2theory.models.loop_state import LoopState
from proofs_checks.claim import Claim, Finding, claim


class _Keep(nn.Module):
    """A block that changes nothing, so that the loop can be fed what a norm would spoil."""

    def forward(
        self, h: Tensor, mix: Callable[[nn.Module, Tensor], Tensor], *, mixer: int = 0
    ) -> Tensor:
        return h


@claim(
    "S3",
    "a shut loop gate is the plain loop",
    statement=(
        "With rho = 0, where it starts, h^(tau) = F(h^(tau-1)) + rho h^(tau-1) is the plain loop."
    ),
    scope="every preset, in float32 and float64, bit for bit; T = 2, one batch of random tokens",
    source="LT2, section 3.1",
    evidence="float64",
    hypotheses={
        "rho = 0": {"an open gate": {"rho": 1e-3}},
        "finite h": {"an infinite h": {"entry": float("inf")}},
    },
    where="0 times an infinity is not a number",
)
def shut_gate(*, fast: bool, rho: float = 0.0, entry: float = 2.0) -> Finding:
    """The model against a loop written out here from its own blocks, which has no gate in it."""
    tokens = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(3))
    named = toys()
    for name in sorted(named)[:: 3 if fast else 1]:
        for dtype in (torch.float32, torch.float64):
            model = LoopedModel(named[name]).to(dtype).eval()
            with torch.no_grad():
                if rho:
                    model.loop_gate.fill_(rho)
                if not torch.equal(model(tokens), _plain_loop(model, tokens)):
                    return Finding(False, counterexample=f"{name} in {dtype}")
    model = LoopedModel(named["toy-gdn"])
    model.blocks = nn.ModuleList([_Keep()])
    h = torch.full((1, 1, 64), entry)
    with torch.no_grad():
        same = torch.equal(model.run_embedded(h), h)
    said = "every third toy" if fast else None
    return Finding(same, scope=said, counterexample=None if same else f"h = {entry}")


def _plain_loop(model: LoopedModel, tokens: Tensor) -> Tensor:
    positions = torch.arange(tokens.shape[1]).expand(tokens.shape)
    state = LoopState(model.config, Stream(positions))
    h = model.embed(tokens)
    for loop in range(model.config.num_loops):
        for layer, block in enumerate(model.blocks):
            number = model.config.mixer_number(layer, loop)
            h = block(h, state.mix_at(layer, loop), mixer=number)
    return model.read_out(h)


CLAIMS: tuple[Claim, ...] = (shut_gate,)
