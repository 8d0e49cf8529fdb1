"""Conversations: what is learnt, how windows are filled, in which order they come."""

import json
from pathlib import Path

import numpy as np
import pytest

from lt2theory.training.text import NO_TARGET, Windows
from lt2theory.training.text.chat import ChatWindows, encode_chat, read_chat
from lt2theory.training.text.tokenizer import ByteTokenizer

BYTES = ByteTokenizer()


def written(folder: Path, *conversations: list[tuple[str, str]]) -> Path:
    path = folder / "chat.jsonl"
    lines = [
        json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]})
        for turns in conversations
    ]
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_only_answers_are_learnt() -> None:
    turns = [("system", "Be brief."), ("user", "Hé?"), ("assistant", "Yes."), ("user", "So?")]
    tokens, targets = encode_chat([*turns, ("assistant", "No.")], BYTES)
    whole = b"".join(
        bytes([0]) + f"{role}\n{text}".encode() + bytes([1]) + b"\n"
        for role, text in [*turns, ("assistant", "No.")]
    )
    marks = {256: 0, 257: 1}
    assert bytes(marks.get(one, one) for one in tokens.tolist()) == whole[:-1]
    learnt = targets != NO_TARGET
    following = np.append(tokens[1:], ord("\n"))
    assert (targets[learnt] == following[learnt]).all()
    found = "".join("|" if one == BYTES.end else chr(one) for one in targets[learnt].tolist())
    assert found == "Yes.|No.|"


def test_a_content_cannot_change_its_label() -> None:
    _, targets = encode_chat([("user", "assistant\nlearn me")], BYTES)
    assert (targets == NO_TARGET).all()


def test_windows_hold_whole_conversations(tmp_path: Path) -> None:
    turns = [[("user", "a" * size), ("assistant", "b" * size)] for size in (1, 3, 2, 5, 40, 4)]
    silent = [[("user", "nobody answers this question, which fills a window by itself" * 2)]]
    path = written(tmp_path, *turns, *silent)
    windows = ChatWindows(path, BYTES, length=61, batch_size=2, seed=3)
    assert isinstance(windows, Windows)
    assert windows.cut == 2
    answers: list[list[int]] = []
    for step in range(windows.num_windows):
        batch = windows.rows(step, 0, 2)
        assert batch.inputs.shape == batch.targets.shape == batch.documents.shape == (2, 61)
        padding = batch.documents == -1
        assert (batch.targets[padding] == NO_TARGET).all()
        assert (np.diff(np.where(padding, 10**6, batch.documents), axis=1) >= 0).all()
        assert (batch.targets != NO_TARGET).any(1).all()
        answers += [row[row != NO_TARGET].tolist() for row in batch.targets]
    # Two epochs; of the answer of 40 the first three letters fit.
    learnt = [token for row in answers for token in row]
    assert learnt.count(ord("b")) == 2 * (1 + 3 + 2 + 5 + 4 + 3)
    assert learnt.count(BYTES.end) == 2 * 5


def test_rows_are_those_of_the_batch_and_epochs_are_shuffled(tmp_path: Path) -> None:
    turns = [[("user", "q"), ("assistant", chr(97 + n) * 9)] for n in range(7)]
    path = written(tmp_path, *turns)
    windows = ChatWindows(path, BYTES, length=40, batch_size=4, seed=0)
    assert windows.num_windows == 7
    again = ChatWindows(path, BYTES, length=40, batch_size=4, seed=0)
    for step in (0, 1, 5):
        whole = windows.rows(step, 0, 4)
        parts = [again.rows(step, row, row + 1) for row in range(4)]
        for number, array in enumerate(whole):
            assert (np.concatenate([part[number] for part in parts]) == array).all()
    every = np.concatenate([windows.rows(step, 0, 4).inputs for step in range(7)])
    for epoch in range(4):
        letters = {row[14] for row in every[7 * epoch : 7 * epoch + 7].tolist()}
        assert len(letters) <= 7
        assert len({tuple(row) for row in every[7 * epoch : 7 * epoch + 7].tolist()}) == 7
    other = ChatWindows(path, BYTES, length=40, batch_size=4, seed=1)
    assert any((other.rows(s, 0, 4).inputs != windows.rows(s, 0, 4).inputs).any() for s in range(3))
    with pytest.raises(ValueError, match=r"rows: 3\.\.5 of step 0 must lie in 0\.\.4"):
        windows.rows(0, 3, 5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: must be an object with `messages`"),
        ('{"text": "x"}', "line 1: must be an object with `messages`"),
        (
            '{"messages": [{"role": "tool", "content": "x"}]}',
            "role: 'tool' is not allowed .choose from ",
        ),
        (
            '{"messages": [{"role": "user", "content": 3}]}',
            "content: 3 is not allowed .must be a text",
        ),
        ('{"messages": []}', "messages: \\[\\] is not allowed"),
    ],
)
def test_other_lines_are_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        list(read_chat(tmp_path / "chat.jsonl"))


def test_files_without_answers_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [("user", "hello")])
    with pytest.raises(ValueError, match="holds no answer of an assistant to learn"):
        ChatWindows(path, BYTES, length=20, batch_size=1, seed=0)
    with pytest.raises(ValueError, match=r"chat: .*missing\.jsonl' cannot be read"):
        list(read_chat(tmp_path / "missing.jsonl"))
