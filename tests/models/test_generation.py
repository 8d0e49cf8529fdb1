"""Generation against repeated parallel calls, padding, stop ids and the draws."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import (
    Decoder,
    LoopedModel,
    Reading,
    Sampling,
    generate,
    prefill,
    reading,
    toys,
)

Build = Callable[..., LoopedModel]


def without_cache(model: LoopedModel, prompt: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        chosen = model(prompt)[:, -1].argmax(-1)
        prompt = torch.cat([prompt, chosen.unsqueeze(1)], 1)
    return prompt


@pytest.mark.parametrize("preset", sorted(toys()))
def test_greedy_is_the_repeated_parallel_call(build: Build, tokens: Tensor, preset: str) -> None:
    """Rows of several lengths together, against each alone on the growing sequence."""
    model, lengths = build(preset, positions="rope", num_loops=3), [9, 2, 5]
    made = generate(model, tokens[:, :9], 6, lengths=torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = without_cache(model, tokens[row : row + 1, 9 - length : 9], 6)
        assert torch.equal(made.tokens[row], alone[0, length:])
    assert made.lengths.tolist() == [6, 6, 6]


@pytest.mark.parametrize("preset", sorted(toys()))
def test_a_prompt_in_pieces(build: Build, tokens: Tensor, preset: str) -> None:
    """Rows of which one is padding throughout its first pieces, against one call."""
    model, lengths = build(preset, positions="rope"), torch.tensor([9, 2, 5])
    prompt = tokens[:, :9]
    expected = model(prompt, lengths=lengths, last_logits=1)[:, 0]
    for chunk in (1, 4, 9, 20):
        cache = model.new_cache(3)
        found = prefill(model, prompt, cache, lengths=lengths, chunk=chunk)
        assert cache.length == 9
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    made = generate(model, prompt, 3, lengths=lengths, reading=Reading(chunk=4))
    assert torch.equal(made.tokens, generate(model, prompt, 3, lengths=lengths).tokens)


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_must_be_positive(build: Build, tokens: Tensor, chunk: int) -> None:
    model = build("toy-gdn")
    with pytest.raises(ValueError, match="chunk"):
        prefill(model, tokens, model.new_cache(3), chunk=chunk)
    with pytest.raises(ValueError, match="chunk"):
        generate(model, tokens, 1, reading=Reading(chunk=chunk))


def test_rows_end_at_a_stop_id(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    free = generate(model, tokens, 12).tokens
    stop = int(free[0, 2])
    made = generate(model, tokens, 12, stop_ids=[stop])
    for row in range(3):
        hits = (free[row] == stop).nonzero().flatten().tolist()
        length = hits[0] + 1 if hits else 12
        assert made.lengths[row] == length
        assert torch.equal(made.tokens[row, :length], free[row, :length])
        assert (made.tokens[row, length:] == stop).all()
    assert made.tokens.shape[1] == made.lengths.max()
    everything = generate(model, tokens, 12, stop_ids=range(11))
    assert everything.tokens.shape == (3, 1)
    assert generate(model, tokens, 0).tokens.shape == (3, 0)


def test_a_cache_is_continued(build: Build, tokens: Tensor) -> None:
    model = build("toy-full-gdn")
    cache = model.new_cache(3)
    first = generate(model, tokens[:, :5], 3, cache=cache)
    assert cache.length == 7
    second = generate(model, first.tokens[:, -1:], 4, cache=cache)
    together = generate(model, tokens[:, :5], 7).tokens
    assert torch.equal(torch.cat([first.tokens, second.tokens], 1), together)


def test_draws_depend_on_the_generator_alone(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn-accumulate")
    before = torch.random.get_rng_state()

    def drawn(seed: int, **settings: object) -> Tensor:
        sampling = Sampling(torch.Generator().manual_seed(seed), **settings)
        return generate(model, tokens, 8, sampling=sampling).tokens

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))
    greedy = generate(model, tokens, 8).tokens
    assert torch.equal(drawn(0, top_k=1), greedy)
    assert torch.equal(drawn(0, temperature=1e-9), greedy)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2, 3), (1.0, 99)])
def test_draws_have_the_tempered_distribution(temperature: float, top_k: int | None) -> None:
    logits = torch.tensor([1.0, 0.2, -0.5, 2.0, 0.9])
    sampling = Sampling(torch.Generator().manual_seed(3), temperature, top_k)
    counts = torch.bincount(sampling.draw(logits.expand(40_000, 5)), minlength=5)
    allowed = logits >= logits.sort().values[-min(top_k or 5, 5)]
    weights = torch.where(allowed, (logits / temperature).exp(), 0.0)
    expected = weights / weights.sum()
    assert (counts[~allowed] == 0).all()
    # Five standard deviations of a share of 40,000 draws are at most 0.0125.
    torch.testing.assert_close(counts / 40_000, expected, atol=0.0125, rtol=0)


def test_bad_arguments(build: Build, tokens: Tensor) -> None:
    model, generator = build("toy-gdn"), torch.Generator()
    with pytest.raises(ValueError, match=r"prompt: shape \(3, 0\)"):
        generate(model, tokens[:, :0], 3)
    with pytest.raises(ValueError, match="max_new_tokens: -1"):
        generate(model, tokens, -1)
    with pytest.raises(ValueError, match=r"stop_ids: 11 is outside the vocabulary 0\.\.10"):
        generate(model, tokens, 3, stop_ids=[11])
    for temperature in (0, -1.0, 1e-50, 1e50, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"temperature: .* must be >= 1e-30"):
            Sampling(generator, temperature)
    with pytest.raises(ValueError, match="top_k: 0 must be >= 1"):
        Sampling(generator, top_k=0)


@pytest.mark.parametrize("preset", ["toy-full-gdn", "toy-window", "toy-mlstm", "toy-nsa"])
def test_fixed_buffers_choose_the_same(build: Build, tokens: Tensor, preset: str) -> None:
    """Greedy and drawn, with rows padded on the left, stop ids, and a limit on positions."""
    model, lengths = build(preset, positions="learned", max_length=14), torch.tensor([9, 2, 5])
    for draws in (False, True):
        made = [
            generate(
                model, tokens[:, :9], 6, lengths=lengths, stop_ids=[3],
                sampling=Sampling(torch.Generator().manual_seed(2)) if draws else None,
                reading=Reading(fast=fast, chunk=4),
            )
            for fast in (False, True)
        ]  # fmt: skip
        assert torch.equal(made[0].tokens, made[1].tokens)
        assert torch.equal(made[0].lengths, made[1].lengths)
    with pytest.raises(ValueError, match="fast: True is not allowed with cache="):
        generate(model, tokens, 2, cache=model.new_cache(3), reading=Reading(fast=True))


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["toy-full-gdn", "toy-gdn-window", "toy-mamba2"])
def test_a_gpu_takes_fixed_buffers(
    build: Build, tokens: Tensor, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, lengths = build(preset, positions="rope").float().cuda(), torch.tensor([9, 2, 5])
    prompt = tokens[:, :9].cuda()
    made = []
    monkeypatch.setattr(
        reading, "Decoder", lambda *x, **y: made.append(Decoder(*x, **y)) or made[-1]
    )
    fast = generate(model, prompt, 20, lengths=lengths)
    assert len(made) == 1
    plain = generate(model, prompt, 20, lengths=lengths, reading=Reading(fast=False))
    assert torch.equal(fast.tokens, plain.tokens)
