"""Conversations from a local file as windows in which only answers are learnt."""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from lt2theory.runs.hashing import file_sha256
from lt2theory.training.text.batches import NO_TARGET, TextBatch
from lt2theory.training.text.permutation import Permutation
from lt2theory.training.text.tokenizer import Tokenizer
from tasks.names import unknown_name

LEARNT = "assistant"
"""The role whose words are learnt."""
ROLES = ("system", "user", LEARNT)

Turns = list[tuple[str, str]]


class _Conversation(NamedTuple):
    tokens: Int64[np.ndarray, "n"]
    targets: Int64[np.ndarray, "n"]


def read_chat(path: Path) -> Iterator[Turns]:
    """Conversations of a file.

    Args:
        path: A .jsonl file; each line is an object whose `messages` are a list of objects with
            `role` (system, user or assistant) and `content`.

    Yields:
        The turns of a conversation: role and content.

    Raises:
        ValueError: The file is missing, or a line is something else.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _turns(line, f"chat: {path} line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"chat: {str(path)!r} cannot be read: {error}") from error


def encode_chat(turns: Turns, tokenizer: Tokenizer) -> _Conversation:
    """Ids of a conversation, and what is learnt at each.

    A turn is `begin`, its role, a line end, its content, `end`, a line end: with SmolLM2's marks
    that is ChatML. Role and content are tokenised apart, so that content cannot change its label.

    Args:
        turns: Role and content of each turn.
        tokenizer: The tokenizer.

    Returns:
        The ids but for the last, and the id after each where it is the assistant's: its content and
        the mark behind it; -100 elsewhere.

    Raises:
        ValueError: The tokenizer cannot read a content.
    """
    ids: list[int] = []
    learnt: list[bool] = []
    line_end = tokenizer.encode(b"\n").tolist()
    for role, content in turns:
        head = [tokenizer.begin, *tokenizer.encode(f"{role}\n".encode()).tolist()]
        body = [*tokenizer.encode(content.encode()).tolist(), tokenizer.end]
        ids += [*head, *body, *line_end]
        learnt += [False] * len(head) + [role == LEARNT] * len(body) + [False] * len(line_end)
    tokens = np.array(ids, dtype=np.int64)
    targets = np.where(np.array(learnt), tokens, NO_TARGET)
    return _Conversation(tokens[:-1], targets[1:])


class ChatWindows:
    """Windows of whole conversations, in a shuffled order, by step.

    A window is filled with conversations one after the other until the next does not fit; the rest
    is padding. A longer one than a window is cut at its end. Windows in which nothing is learnt
    are left out. All of the file is held in memory, as ids.

    Args:
        path: The file, as `read_chat` takes it.
        tokenizer: The tokenizer.
        length: Tokens of a window.
        batch_size: Windows of a step, over all processes.
        seed: Seed of the order.

    Attributes:
        num_windows: Windows of an epoch.
        cut: Conversations that lost their end.
        fingerprint: Hash of the file.

    Raises:
        ValueError: The file cannot be read, or nothing in it is learnt.
    """

    def __init__(
        self, path: Path, tokenizer: Tokenizer, *, length: int, batch_size: int, seed: int
    ) -> None:
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.cut = 0
        packed = [window for window in self._packed(path, tokenizer) if _is_learnt(window)]
        if not packed:
            raise ValueError(f"chat: {str(path)!r} holds no answer of an {LEARNT} to learn")
        self._windows = TextBatch(*(np.concatenate(part) for part in zip(*packed, strict=True)))
        self.num_windows = len(packed)
        self.fingerprint = file_sha256(path)
        self._order = lru_cache(maxsize=4)(self._open_order)

    def rows(self, step: int, start: int, stop: int) -> TextBatch:
        """Some windows of a step.

        Args:
            step: Steps done before.
            start: The first window.
            stop: One after the last.

        Returns:
            `stop - start` windows.

        Raises:
            ValueError: The step or the rows are out of range.
        """
        if step < 0 or not 0 <= start < stop <= self.batch_size:
            raise ValueError(
                f"rows: {start}..{stop} of step {step} must lie in 0..{self.batch_size}"
            )
        places = step * self.batch_size + np.arange(start, stop, dtype=np.int64)
        epochs, inner = np.divmod(places, self.num_windows)
        chosen = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            chosen[here] = self._order(epoch)(inner[here])
        return TextBatch(*(part[chosen] for part in self._windows))

    def _open_order(self, epoch: int) -> Permutation:
        return Permutation(self.num_windows, "chat windows", self.seed, epoch)

    def _packed(self, path: Path, tokenizer: Tokenizer) -> Iterator[TextBatch]:
        """Windows in the order of the file."""
        window, filled, count = self._empty(), 0, 0
        for turns in read_chat(path):
            tokens, targets = encode_chat(turns, tokenizer)
            self.cut += len(tokens) > self.length
            tokens, targets = tokens[: self.length], targets[: self.length]
            if filled + len(tokens) > self.length:
                yield window
                window, filled, count = self._empty(), 0, 0
            part = slice(filled, filled + len(tokens))
            window.inputs[0, part], window.targets[0, part] = tokens, targets
            window.documents[0, part] = count
            filled, count = filled + len(tokens), count + 1
        yield window

    def _empty(self) -> TextBatch:
        shape = (1, self.length)
        padding = (np.full(shape, value, dtype=np.int64) for value in (0, NO_TARGET, -1))
        return TextBatch(*padding)


def _is_learnt(window: TextBatch) -> bool:
    return bool((window.targets != NO_TARGET).any())


def _turns(line: str, where: str) -> Turns:
    """The turns of one line; anything else than a conversation is refused."""
    try:
        messages: Any = json.loads(line)["messages"]
        turns = [(message["role"], message["content"]) for message in messages]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{where}: must be an object with `messages`, each with `role` and `content` ({error})"
        ) from None
    for role, content in turns:
        if role not in ROLES:
            raise ValueError(unknown_name(f"{where}: role", role, ROLES))
        if not isinstance(content, str):
            raise ValueError(f"{where}: content: {content!r} is not allowed (must be a text)")
    if not turns:
        raise ValueError(f"{where}: messages: [] is not allowed (must hold a turn)")
    return turns
