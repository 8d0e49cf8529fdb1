"""Nothing crosses from one document of a packed batch into another, in any mixer."""

import numpy as np
import pytest
import torch

from lt2theory.mixers import MIXERS
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.text import TextBatches
from tests.training.text.conftest import MakeCorpus

TEXTS = [f"{n} " + "words " * (n % 4) for n in range(30)]
PATTERNS = sorted({*MIXERS, "full,gdn", "gdn,window"})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_boundaries_hold(pattern: str, make_corpus: MakeCorpus) -> None:
    """A logit depends on earlier tokens of its own document, and on nothing else.

    By values, where all other tokens are replaced, and by gradients with respect to every embedded
    token.
    """
    made = TextBatches(make_corpus(TEXTS).stream("train"), length=37, batch_size=3, seed=0)
    batch = made.batch(2)
    config = LoopedConfig(
        vocab_size=258, width=16, num_layers=2, num_loops=2, num_heads=2, pattern=pattern, window=5,
        block_size=4, num_blocks=2, top_k=6,
    )  # fmt: skip
    model = LoopedModel(config).double()
    inputs, ids = torch.from_numpy(batch.inputs), torch.from_numpy(batch.documents)
    logits = model(inputs, documents=ids)
    row = int(np.argmax([len(np.unique(line)) for line in batch.documents]))
    numbers = np.unique(batch.documents[row])
    assert len(numbers) >= 3
    inside = np.flatnonzero(batch.documents[row] == numbers[1])
    place = int(inside[len(inside) // 2])
    own = torch.zeros(37, dtype=torch.bool)
    own[inside[inside <= place]] = True

    changed = inputs.clone()
    changed[row, ~own] = (changed[row, ~own] + 1) % 256
    again = model(changed, documents=ids)
    assert torch.equal(again[row, place], logits[row, place])
    assert not torch.equal(again[row], logits[row])

    seen: list[torch.Tensor] = []
    handle = model.embedding.register_forward_hook(lambda *call: seen.append(call[2]))
    read_out = model(inputs, documents=ids)[row, place]
    handle.remove()
    (gradient,) = torch.autograd.grad(read_out.square().sum(), seen[0])
    size = gradient.abs().sum(-1)
    # Sums over a chunk leave rounding where terms of other documents cancel.
    noise = 1e-12 * size[row, own].max()
    assert size[row, place] > noise
    assert size[row, ~own].max() <= noise
    assert size[torch.arange(3) != row].max() == 0


def test_a_document_alone_gives_the_same_logits(make_corpus: MakeCorpus) -> None:
    made = TextBatches(make_corpus(TEXTS).stream("train"), length=41, batch_size=2, seed=1)
    batch = made.batch(0)
    model = LoopedModel(LoopedConfig(vocab_size=258, width=16, num_heads=2, num_loops=2)).double()
    packed = model(torch.from_numpy(batch.inputs), documents=torch.from_numpy(batch.documents))
    for row in range(2):
        for number in np.unique(batch.documents[row]):
            inside = batch.documents[row] == number
            alone = model(torch.from_numpy(batch.inputs[row][inside])[None])
            torch.testing.assert_close(packed[row][torch.from_numpy(inside)], alone[0])
