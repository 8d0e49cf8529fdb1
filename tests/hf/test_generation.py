"""generate() through our caches chooses what calls on the whole text would choose."""

import copy
from typing import Any

import pytest
import torch

from lt2theory.hf import LoopedLTCache, LoopedLTForCausalLM
from lt2theory.models import at_depth, generate, read_leaving
from tests.hf import tiny

PATTERNS = sorted(tiny.PATTERNS)
NEW = 6
WAYS = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 0.7, "top_k": 20},
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 2, "num_return_sequences": 2, "do_sample": True},
}
CASES = [(pattern, "beams") for pattern in PATTERNS] + [
    ("hybrid", "greedy"),
    ("window", "greedy"),
    ("nsa", "greedy"),
    ("accumulate", "sampling"),
    ("hybrid", "sampled beams"),
]


def run(model: Any, ids: torch.Tensor, mask: torch.Tensor | None = None, **how: Any) -> Any:
    torch.manual_seed(3)
    settings = {"do_sample": False, "max_new_tokens": NEW, **how}
    return model.generate(ids, attention_mask=mask, **settings)


@pytest.mark.parametrize(("pattern", "way"), CASES)
def test_cached_texts_are_those_of_recomputation(pattern: str, way: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    ids, mask = tiny.left_padded(tiny.tokens(3, 11), [11, 6, 1])
    cached = run(model, ids, mask, **WAYS[way])
    assert torch.equal(cached, run(model, ids, mask, use_cache=False, **WAYS[way]))
    assert len(cached[:, 11:].unique()) > 3  # a text, not one token again and again


@pytest.mark.parametrize("pattern", ["hybrid", "window", "nsa"])
def test_cached_logits_are_those_of_recomputation(pattern: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    ids, mask = tiny.left_padded(tiny.tokens(2, 8), [8, 3])
    how = {"return_dict_in_generate": True, "output_logits": True, "eos_token_id": None}
    out = run(model, ids, mask, **how)
    assert isinstance(out.cache, LoopedLTCache)
    whole = torch.cat([mask, torch.ones(2, NEW, dtype=torch.int64)], 1)
    logits = model(out.sequences, attention_mask=whole).logits
    # Generation hands out float32.
    torch.testing.assert_close(torch.stack(out.logits, 1), logits[:, 7:-1].float())


def test_greedy_is_ours() -> None:
    model = tiny.model(**tiny.PATTERNS["hybrid"])
    ids = tiny.tokens(2, 7)
    ours = generate(model.model, ids, NEW)
    assert torch.equal(run(model, ids, eos_token_id=None)[:, 7:], ours.tokens)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_steps_of_fixed_buffers_give_the_same_text(pattern: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    ids, mask = tiny.left_padded(tiny.tokens(2, 8), [8, 3])
    how = {"cache_implementation": "static", "return_dict_in_generate": True}
    out = run(model, ids, mask, **how)
    assert torch.equal(out.sequences, run(model, ids, mask))
    if out.sequences.shape[1] == 8 + NEW:
        assert out.cache.get_seq_length() == 7 + NEW
    with pytest.raises(ValueError, match="fixed capacity"):
        out.cache.reorder_cache(torch.tensor([0, 0]))


@pytest.mark.parametrize("pattern", ["gdn", "full", "window", "hybrid"])
def test_guesses_are_taken_back(pattern: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    ids = tiny.tokens(1, 6).repeat(1, 4)
    guessed = run(model, ids, prompt_lookup_num_tokens=4, max_new_tokens=14)
    assert torch.equal(guessed, run(model, ids, max_new_tokens=14))


@pytest.mark.parametrize("pattern", ["gdn", "hybrid"])
def test_a_cache_goes_on_and_copies_go_apart(pattern: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    ids, mask = tiny.left_padded(tiny.tokens(2, 12), [12, 10])
    prompt = model(ids[:, :7], attention_mask=mask[:, :7], use_cache=True).cache
    wanted = run(model, ids, mask)
    for _ in range(2):
        assert torch.equal(run(model, ids, mask, cache=copy.deepcopy(prompt)), wanted)
    assert prompt.get_seq_length() == 7


def test_prompts_in_pieces() -> None:
    model = tiny.model(**tiny.PATTERNS["hybrid"])
    ids, mask = tiny.left_padded(tiny.tokens(2, 12), [12, 3])
    assert torch.equal(run(model, ids, mask, prefill_chunk_size=5), run(model, ids, mask))


@pytest.mark.parametrize("way", ["greedy", "sampling", "beams"])
def test_tokens_read_out_early_are_those_of_recomputation(way: str) -> None:
    model = tiny.model(**{**tiny.PATTERNS["ouro"], "num_loops": 3}, exit_threshold=0.6)
    ids, mask = tiny.left_padded(tiny.tokens(3, 11), [11, 6, 1])
    exits = read_leaving(model.model, ids, 0.6, first=11).exits
    assert len(exits.unique()) > 1
    cached = run(model, ids, mask, **WAYS[way])
    assert torch.equal(cached, run(model, ids, mask, use_cache=False, **WAYS[way]))
    for threshold, depth in ((0.0, 1), (1.0, 3)):
        model.config.exit_threshold = threshold
        other = LoopedLTForCausalLM.from_looped(
            at_depth(model.model, depth), pad_token_id=0, eos_token_id=1
        )
        assert torch.equal(run(model, ids, mask, **WAYS[way]), run(other, ids, mask, **WAYS[way]))


def test_thresholds_without_a_gate_are_refused() -> None:
    with pytest.raises(ValueError, match=r"exit_threshold: 0.5 needs a model with exit_gate=True"):
        tiny.model(exit_threshold=0.5)
    model = tiny.model(**tiny.PATTERNS["ouro"], exit_threshold=0.5)
    with pytest.raises(ValueError, match="'static' runs and reads all loops"):
        run(model, tiny.tokens(1, 4), cache_implementation="static")


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["greedy", "sampling", "beams"])
def test_a_gpu_takes_fixed_buffers_where_they_serve(way: str) -> None:
    model = tiny.model(torch.float32, **tiny.PATTERNS["hybrid"]).cuda()
    ids, mask = (x.cuda() for x in tiny.left_padded(tiny.tokens(3, 11), [11, 6, 1]))
    how = {"max_new_tokens": 20, "return_dict_in_generate": True, "eos_token_id": None}
    out = run(model, ids, mask, **how, **WAYS[way])
    assert (out.cache.capacity is None) == (way == "beams")
    plain = run(model, ids, mask, cache_implementation="dynamic", **how, **WAYS[way])
    assert torch.equal(out.sequences, plain.sequences)


def test_other_caches_are_refused() -> None:
    model = tiny.model()
    with pytest.raises(ValueError, match="cache_implementation: 'quantized'"):
        run(model, tiny.tokens(1, 4), cache_implementation="quantized")
