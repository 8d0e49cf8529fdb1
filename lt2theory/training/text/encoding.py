"""Tokenisation by several processes, in the order of the documents whatever their number."""

import hashlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from jaxtyping import Integer

from lt2theory.training.text.documents import Document
from lt2theory.training.text.tokenizer import Tokenizer, marked, open_tokenizer

_CHUNK_BYTES = 1 << 20
_CHUNK_DOCUMENTS = 4096
_ENDED = "a process that tokenises has ended; perhaps memory ran out"


@dataclass(frozen=True)
class Encoded:
    """A tokenised document.

    Attributes:
        tokens: Its ids with marks, as `marked` gives them.
        size: Bytes of its text.
        digest: BLAKE2 of its text, 16 bytes: what it is, wherever it was found.
        lossless: Whether its ids give its text back, as far as that was tried.
    """

    tokens: Integer[np.ndarray, "n"]
    size: int
    digest: bytes
    lossless: bool


def encode_all(
    documents: Iterable[Document], tokenizer: Tokenizer, workers: int
) -> Generator[Encoded]:
    """Tokenise documents, leaving out empty ones.

    Args:
        documents: The documents; read a few MiB ahead.
        tokenizer: The tokenizer; other processes open it by its name.
        workers: Processes beside this one; with 0 it does the work itself.

    Yields:
        The documents that have text, in order; the same for every number of workers.

    Raises:
        ValueError: The tokenizer cannot read a document.
        RuntimeError: A process has ended.
    """
    chunks = _chunks(documents)
    if workers == 0:
        for chunk in chunks:
            yield from encode(tokenizer, chunk)
        return
    pool = [_Worker(tokenizer.name) for _ in range(workers)]
    try:
        idle, busy = deque(pool), deque[_Worker]()
        for chunk in chunks:
            # One chunk at a time for each: with two, both ends of a pipe could wait to send.
            if not idle:
                idle.append(busy.popleft())
                yield from idle[0].receive()
            busy.append(idle.popleft())
            busy[-1].send(chunk)
        for worker in busy:
            yield from worker.receive()
    finally:
        for worker in pool:
            worker.close()


def encode(tokenizer: Tokenizer, documents: list[Document]) -> list[Encoded]:
    """Tokenise documents here.

    Args:
        tokenizer: The tokenizer.
        documents: Documents that have text.

    Returns:
        One for each.

    Raises:
        ValueError: The tokenizer cannot read one; the message says where it was found.
    """
    done: list[Encoded] = []
    for text, origin in documents:
        try:
            (tokens,) = marked(tokenizer, [text])
        except ValueError as error:
            raise ValueError(f"{origin}: {error}") from error
        digest = hashlib.blake2b(text, digest_size=16).digest()
        # Going back costs as much as going there: the first, and one in sixteen, are a sample.
        tried = not done or digest[0] < 16
        lossless = not tried or tokenizer.decode(tokens[1:-1]) == text
        done.append(Encoded(tokens, len(text), digest, lossless))
    return done


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Runs of documents that have text, large enough to be worth sending."""
    chunk: list[Document] = []
    size = 0
    for document in documents:
        if not document.text:
            continue
        chunk.append(document)
        size += len(document.text)
        if size >= _CHUNK_BYTES or len(chunk) >= _CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Worker:
    """A process that tokenises chunks in turn; it ends when the other side of its pipe does."""

    def __init__(self, name: str) -> None:
        # Spawned, not forked: the caller may have threads and a CUDA context.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, name), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, chunk: list[Document]) -> None:
        try:
            self._connection.send(chunk)
        except OSError as error:
            raise RuntimeError(_ENDED) from error

    def receive(self) -> list[Encoded]:
        try:
            answer: list[Encoded] | Exception = self._connection.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError(_ENDED) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.join()
        self._process.close()


def serve(connection: Connection, name: str) -> None:
    """Answer chunks in turn, each with its documents or with the error that it met.

    Args:
        connection: Where chunks come from. It is closed, from the other side or by the end of that
            process, when there are no more. Ctrl-C is left to the process that asks.
        name: Name of the tokenizer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tokenizer = open_tokenizer(name)
    while True:
        try:
            chunk: list[Document] = connection.recv()
        except EOFError:
            return
        try:
            answer: list[Encoded] | Exception = encode(tokenizer, chunk)
        except Exception as error:  # noqa: BLE001 - the process that asks raises it
            answer = error
        try:
            connection.send(answer)
        except BrokenPipeError:
            return
