"""Tokenizers: texts come back, marks cannot be written by a text, ids fit their dtype."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lt2theory.training.text import ByteTokenizer, Tokenizer, open_tokenizer
from lt2theory.training.text.tokenizer import marked, token_dtype

TEXTS = ["", "a", "naïve café", "日本語\r\n\ttabs", "\N{GRINNING FACE}" * 3, "\0\x7f", "the cat\n"]


@given(st.binary(max_size=300))
def test_bytes_come_back(text: bytes) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", TEXTS)
def test_hugging_face_comes_back(bpe: Path, text: str) -> None:
    tokenizer = open_tokenizer(str(bpe))
    assert isinstance(tokenizer, Tokenizer)
    ids = tokenizer.encode(text.encode())
    assert tokenizer.decode(ids) == text.encode()
    assert not ids.size or 0 <= ids.min() <= ids.max() < tokenizer.vocab_size


def test_hugging_face_uses_its_merges(bpe: Path) -> None:
    assert len(open_tokenizer(str(bpe)).encode(b"the cat and the dog")) < 12


def test_a_text_cannot_write_a_mark(bpe: Path) -> None:
    tokenizer = open_tokenizer(str(bpe))
    ids = tokenizer.encode(b"a</s>b<s>")
    assert tokenizer.end not in ids
    assert tokenizer.begin not in ids
    assert tokenizer.decode(ids) == b"a</s>b<s>"


@pytest.mark.parametrize("name", ["bytes", "bpe"])
def test_documents_stand_between_marks(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer = open_tokenizer(name if name == "bytes" else str(request.getfixturevalue(name)))
    for text, ids in zip(TEXTS, marked(tokenizer, [t.encode() for t in TEXTS]), strict=True):
        assert ids.dtype == np.uint16
        assert (ids[0], ids[-1]) == (tokenizer.begin, tokenizer.end)
        assert tokenizer.decode(ids) == text.encode()


def test_dtype_holds_the_largest_id() -> None:
    assert token_dtype(1 << 16) == np.uint16
    assert token_dtype((1 << 16) + 1) == np.uint32


def test_tokenizer_json_and_folder_are_one(bpe: Path) -> None:
    by_file, by_folder = open_tokenizer(str(bpe / "tokenizer.json")), open_tokenizer(str(bpe))
    assert by_file.fingerprint == by_folder.fingerprint


def test_fingerprint_follows_the_marks(bpe: Path, tmp_path: Path) -> None:
    other = shutil.copytree(bpe, tmp_path / "other")
    (other / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    tokenizer = open_tokenizer(str(other))
    assert tokenizer.begin == tokenizer.end
    assert tokenizer.fingerprint != open_tokenizer(str(bpe)).fingerprint


def test_truncation_and_padding_of_the_file_are_off(bpe: Path, tmp_path: Path) -> None:
    import tokenizers

    backend = tokenizers.Tokenizer.from_file(str(bpe / "tokenizer.json"))
    backend.enable_truncation(3)
    backend.enable_padding(length=50)
    other = shutil.copytree(bpe, tmp_path / "other")
    backend.save(str(other / "tokenizer.json"))
    text = b"the cat and the dog and more"
    ids = open_tokenizer(str(other)).encode(text)
    assert open_tokenizer(str(other)).decode(ids) == text


def test_transformers_saves_what_is_opened(bpe: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(bpe / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )
    fast.save_pretrained(str(tmp_path / "saved"))
    ours, text = open_tokenizer(str(tmp_path / "saved")), "the cat and the dog"
    assert ours.encode(text.encode()).tolist() == fast.encode(text, add_special_tokens=False)
    assert (ours.begin, ours.end) == (fast.bos_token_id, fast.eos_token_id)


def test_refusals(bpe: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer: 'gpt9' is not allowed \(must be 'bytes', a"):
        open_tokenizer("gpt9")
    with pytest.raises(ValueError, match="byte 1 is no UTF-8"):
        open_tokenizer(str(bpe)).encode(b"a\xff")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(bpe / "tokenizer.json", bare)
    with pytest.raises(ValueError, match="has no eos_token to end a document with"):
        open_tokenizer(str(bare))
    (bare / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read"):
        open_tokenizer(str(bare))


def test_no_code_of_the_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is typed where `transformers` would ask for leave."""
    ran = tmp_path / "ran"
    config = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Own: pass\n")
    monkeypatch.setattr("builtins.input", lambda _: "y")
    with pytest.raises(ValueError, match="cannot be read: "):
        open_tokenizer(str(tmp_path))
    assert not ran.exists()


def test_a_missing_package_is_named(bpe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match=r"needs the package tokenizers \(pip install"):
        open_tokenizer(str(bpe))
