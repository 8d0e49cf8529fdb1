"""The tokenizer of bytes under transformers has the ids of ours."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from lt2theory.hf.tokenizer import byte_tokenizer
from lt2theory.training.text.tokenizer import ByteTokenizer, open_tokenizer

TEXTS = ["", "a", "don't  stop\n\n", "Zürich 世界 \U0001f600", "\x00\x7f\t 1,234.5"]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_bytes(text: str) -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer(text)["input_ids"]
    assert ids == [ByteTokenizer.begin, *ByteTokenizer().encode(text.encode()).tolist()]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids[1:]


def test_it_is_saved_for_transformers_and_for_us(tmp_path: Path) -> None:
    byte_tokenizer().save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    padded = read(["ab", "abcd"], padding=True)
    assert padded["input_ids"][0] == [257, 257, 256, 97, 98]
    assert padded["attention_mask"][0] == [0, 0, 1, 1, 1]
    assert (read.eos_token_id, len(read)) == (257, ByteTokenizer.vocab_size)
    ours = open_tokenizer(str(tmp_path))
    assert (ours.begin, ours.end, ours.vocab_size) == (256, 257, 258)
    assert ours.encode(TEXTS[3].encode()).tolist() == list(TEXTS[3].encode())
