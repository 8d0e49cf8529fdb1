"""The model under transformers: it is the LoopedModel, saved, loaded, masked and trained."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from transformers import AutoModelForCausalLM
from transformers.loss.loss_utils import ForCausalLMLoss

from lt2theory.hf import LoopedLTCache, LoopedLTForCausalLM
from lt2theory.models import LoopedModel, loop_loss
from tests.hf import tiny

PATTERNS = sorted(tiny.PATTERNS)


def test_a_new_model_is_the_looped_model_of_its_config() -> None:
    own = tiny.config(pattern="gdn,full")
    wrapped = AutoModelForCausalLM.from_config(tiny.LoopedLTConfig(own))
    ids = tiny.tokens(2, 9)
    assert torch.equal(wrapped(ids).logits, LoopedModel(own)(ids))


def test_a_trained_model_is_wrapped_without_a_copy() -> None:
    own = LoopedModel(tiny.config()).double()
    wrapped = LoopedLTForCausalLM.from_looped(own, eos_token_id=4)
    assert wrapped.model is own
    assert (wrapped.dtype, wrapped.config.eos_token_id) == (torch.float64, 4)
    assert wrapped.generation_config.eos_token_id == 4


@pytest.mark.parametrize("tied", [False, True])
def test_saved_models_come_back(tied: bool, tmp_path: Path) -> None:
    model = tiny.model(torch.float32, pattern="gdn,full", tie_embeddings=tied)
    model.save_pretrained(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "generation_config.json", "model.safetensors", "README.md"}
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = tiny.tokens(2, 11)
    assert torch.equal(read(ids).logits, model(ids).logits)
    assert ("model.head.weight" in load_file(tmp_path / "model.safetensors")) is not tied
    assert read.get_output_embeddings() is (read.model.embedding if tied else read.model.head)


def test_bfloat16_keeps_what_decays_are_made_of(tmp_path: Path) -> None:
    model = tiny.model(torch.float32, pattern="gdn,mamba2,kda,full", num_layers=4, init_std=0.05)
    model.save_pretrained(tmp_path)
    read = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    kept = {n for n, p in read.named_parameters() if p.dtype == torch.float32}
    assert {name.rpartition(".")[2] for name in kept} == {"A_log", "dt_bias"}
    assert len(kept) == 6
    before = dict(model.named_parameters())
    assert all(torch.equal(p, before[n]) for n, p in read.named_parameters() if n in kept)
    ids = tiny.tokens(2, 11)
    got, wanted = read(ids).logits, model(ids).logits
    assert got.dtype == torch.bfloat16
    assert (got - wanted).abs().max() < 0.05 * wanted.abs().max()


def test_weights_that_a_checkpoint_lacks_start_as_in_a_new_model(tmp_path: Path) -> None:
    model = tiny.model(torch.float32, pattern="gdn,full")
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    gone = ("model.norm.weight", "model.blocks.0.mixer.A_log", "model.blocks.1.mixer.q_proj.weight")
    kept = {name: weight for name, weight in weights.items() if name not in gone}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    read = dict(AutoModelForCausalLM.from_pretrained(tmp_path).named_parameters())
    fresh = dict(LoopedModel(model.config.looped_config).named_parameters())
    assert all(torch.equal(read[name], fresh[name.removeprefix("model.")]) for name in gone)
    assert all(torch.equal(read[name], weight) for name, weight in kept.items())


def test_the_card_says_what_was_saved_and_one_that_is_there_stays(tmp_path: Path) -> None:
    model = tiny.model(torch.float32)
    model.save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert f"{model.num_parameters():,} parameters: 2 blocks of width 16" in card
    assert "| pattern | `gdn` |" in card
    (tmp_path / "README.md").write_text("mine")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_padding_changes_nothing(pattern: str, side: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern])
    lengths = [13, 7, 1]
    rows = [tiny.tokens(1, n, seed=n) for n in lengths]
    pads = [(13 - n, 0) if side == "left" else (0, 13 - n) for n in lengths]
    ids = torch.cat([F.pad(row, pad) for row, pad in zip(rows, pads, strict=True)])
    mask = torch.cat([F.pad(torch.ones_like(r), pad) for r, pad in zip(rows, pads, strict=True)])
    logits = model(ids, attention_mask=mask).logits
    for i, row in enumerate(rows):
        alone = model(row).logits
        torch.testing.assert_close(logits[i][mask[i] == 1], alone[0], rtol=1e-9, atol=1e-9)


def test_documents_do_not_see_each_other() -> None:
    model = tiny.model(**tiny.PATTERNS["hybrid"])
    ids = tiny.tokens(1, 12)
    packed = model(ids, documents=torch.tensor([[0] * 5 + [1] * 7])).logits
    torch.testing.assert_close(packed[:, 5:], model(ids[:, 5:]).logits)
    with pytest.raises(ValueError, match="documents or attention_mask"):
        model(ids, attention_mask=torch.ones_like(ids), documents=ids)


def test_logits_to_keep() -> None:
    model = tiny.model()
    ids = tiny.tokens(2, 9)
    logits = model(ids).logits
    assert torch.equal(model(ids, logits_to_keep=3).logits, logits[:, -3:])
    at = torch.tensor([0, 4, 8])
    assert torch.equal(model(ids, logits_to_keep=at).logits, logits[:, at])
    with pytest.raises(ValueError, match="logits_to_keep: with labels"):
        model(ids, labels=ids, logits_to_keep=3)


def test_plain_tuples_and_the_cache_on_request() -> None:
    model = tiny.model()
    ids = tiny.tokens(2, 5)
    assert isinstance(model(ids).cache, LoopedLTCache)
    assert model(ids, use_cache=False).cache is None
    assert model(ids, labels=ids).cache is None
    logits, cache = model(ids, return_dict=False)
    assert torch.equal(logits, model(ids).logits)
    assert cache.get_seq_length() == 5


def test_hidden_states_are_those_between_the_loops() -> None:
    model = tiny.model(**tiny.PATTERNS["ouro"], num_layers=1)
    ids, mask = tiny.left_padded(tiny.tokens(2, 9), [9, 4])
    out = model(ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
    assert len(out.hidden_states) == 3
    torch.testing.assert_close(model.model.read_out(out.hidden_states[-1]), out.logits)
    with pytest.raises(ValueError, match="output_hidden_states"):
        model(ids, output_hidden_states=True)


def test_the_loss_is_that_of_transformers() -> None:
    model = tiny.model(torch.float32)
    ids = tiny.tokens(3, 10)
    labels = torch.where(tiny.tokens(3, 10, seed=1) < 20, -100, ids)
    for items in (None, 17, torch.tensor(5)):
        out = model(ids, labels=labels, num_items_in_batch=items)
        wanted = ForCausalLMLoss(out.logits, labels, tiny.VOCAB, num_items_in_batch=items)
        torch.testing.assert_close(out.loss, wanted)
        trained = copy.deepcopy(model).train()(ids, labels=labels, num_items_in_batch=items)
        torch.testing.assert_close(trained.loss, wanted)
    with pytest.raises(ValueError, match="labels: shape"):
        model(ids, labels=labels[:, 1:])


@pytest.mark.parametrize("kind", ["mean", "expected"])
def test_training_takes_the_loss_that_the_configuration_names(kind: str) -> None:
    model = tiny.model(**{**tiny.PATTERNS["ouro"], "loop_loss": kind}).train()
    ids, mask = tiny.left_padded(tiny.tokens(2, 9), [9, 5])
    labels = torch.where(mask == 1, ids, -100)
    targets = F.pad(labels[:, 1:], (0, 1), value=-100)
    wanted = loop_loss(model.model, ids, targets, documents=mask - 1).total
    out = model(ids, attention_mask=mask, labels=labels)
    torch.testing.assert_close(out.loss, wanted)
    assert out.logits is None
    count = (targets != -100).sum()
    summed = model(ids, attention_mask=mask, labels=labels, num_items_in_batch=2 * count)
    torch.testing.assert_close(summed.loss, wanted / 2)
    logits = model.eval()(ids, attention_mask=mask).logits
    evaluated = model(ids, attention_mask=mask, labels=labels)
    torch.testing.assert_close(
        evaluated.loss, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    )


def test_training_adds_the_indexer_s_own_loss() -> None:
    model = tiny.model(**tiny.PATTERNS["dsa"]).train()
    ids = tiny.tokens(2, 9)
    losses: dict[str, torch.Tensor] = {}
    model.model(ids, losses=losses)
    out = model(ids, labels=ids)
    torch.testing.assert_close(
        out.loss, F.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        + losses["indexer"],
    )  # fmt: skip


@pytest.mark.parametrize("pattern", ["hybrid", "accumulate", "ouro"])
@pytest.mark.parametrize("own", ["none", "block"])
def test_checkpointing_gives_the_same_gradients(pattern: str, own: str) -> None:
    model = tiny.model(**tiny.PATTERNS[pattern], checkpointing=own).train()
    ids = tiny.tokens(2, 9)
    model.activation_checkpointing_disable()
    assert model.model.config.checkpointing == "none"
    assert not model.is_activation_checkpointing
    model(ids, labels=ids).loss.backward()
    wanted = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model.activation_checkpointing_enable()
    assert model.is_activation_checkpointing
    assert model.model.config.checkpointing == ("block" if own == "block" else "loop")
    assert model.config.looped_config.checkpointing == own
    model(ids, labels=ids).loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-9, atol=1e-9)


def test_the_vocabulary_has_one_size() -> None:
    model = tiny.model()
    assert model.get_input_embeddings() is model.model.embedding
    with pytest.raises(ValueError, match="vocab_size: 61"):
        model.resize_token_embeddings(70)
