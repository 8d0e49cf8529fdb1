"""Hugging Face tokenizers from a folder; neither the network nor code from the folder is used."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

_FILE = "tokenizer.json"
_CONFIGS = ("tokenizer_config.json", "special_tokens_map.json")


class HuggingFaceTokenizer:
    """A tokenizer of the package `tokenizers`, without the marks that it would add by itself.

    Text that looks like a special token is read as text: a document cannot write a mark.

    Args:
        name: Where it was opened.
        backend: A `tokenizers.Tokenizer`; its truncation and padding are switched off.
        begin: Id of the mark before a document.
        end: Id of the mark after a document.
        fingerprint: Hash of its definition.
    """

    def __init__(self, name: str, backend: Any, begin: int, end: int, fingerprint: str) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._backend = backend
        self.name = name
        self.begin = begin
        self.end = end
        self.fingerprint = fingerprint
        self.vocab_size = 1 + max(backend.get_vocab(with_added_tokens=True).values())

    def encode(self, text: bytes) -> Integer[np.ndarray, "n"]:
        """Ids of a text.

        Args:
            text: UTF-8.

        Returns:
            Ids, int64.

        Raises:
            ValueError: It is no UTF-8.
        """
        try:
            string = text.decode()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"byte {error.start} is no UTF-8, which tokenizer {self.name} needs; "
                "the tokenizer 'bytes' takes any bytes"
            ) from None
        ids = self._backend.encode(string, add_special_tokens=False).ids
        return np.array(ids, dtype=np.int64)

    def decode(self, tokens: Integer[np.ndarray, "n"]) -> bytes:
        """The text of ids.

        Args:
            tokens: Ids; special tokens are left out.

        Returns:
            UTF-8; bytes that are none are replaced, as where a character was cut.
        """
        text: str = self._backend.decode(tokens.tolist(), skip_special_tokens=True)
        return text.encode()


def open_hugging_face(name: str) -> HuggingFaceTokenizer:
    """Open a tokenizer that was saved to a folder.

    Args:
        name: The folder, or its tokenizer.json. Without that file `transformers` makes one from
            what is there.

    Returns:
        The tokenizer; a document begins with its `bos_token`, or with its `eos_token` where it has
        no other, and ends with its `eos_token`.

    Raises:
        ValueError: There is no tokenizer, it has no `eos_token`, or a package is missing.
    """
    path = Path(name)
    folder = path.parent if path.is_file() else path
    if not folder.is_dir() or (path.is_file() and path.name != _FILE):
        raise ValueError(
            f"tokenizer: {name!r} is not allowed (must be 'bytes', a folder with a Hugging Face "
            f"tokenizer, or a {_FILE})"
        )
    backend, marks, definition = _load(folder)
    vocabulary = backend.get_vocab(with_added_tokens=True)
    end = marks.get("eos_token")
    if end not in vocabulary:
        raise ValueError(
            f"tokenizer: {name!r} has no eos_token to end a document with "
            f"(name one of its tokens in {folder / _CONFIGS[0]})"
        )
    begin = marks.get("bos_token")
    first, last = vocabulary[begin if begin in vocabulary else end], vocabulary[end]
    digest = hashlib.sha256(definition + f"\n{first} {last}".encode()).hexdigest()
    return HuggingFaceTokenizer(name, backend, first, last, digest)


def _load(folder: Path) -> tuple[Any, dict[str, str], bytes]:
    """Return the backend, its marks by their roles, and the text that defines it.

    Raises:
        ValueError: A package is missing, or the files hold no tokenizer.
    """
    file = folder / _FILE
    try:
        if file.is_file():
            import tokenizers

            definition = file.read_bytes()
            return tokenizers.Tokenizer.from_file(str(file)), _marks(folder), definition
        import transformers

        # Said outright: where it is not, `transformers` asks on a terminal whether to run code.
        made = transformers.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
        backend = made.backend_tokenizer
        marks = {"bos_token": made.bos_token, "eos_token": made.eos_token}
        return backend, marks, backend.to_str().encode()
    except ImportError as error:
        raise ValueError(
            f"tokenizer: {str(folder)!r} needs the package {error.name} (pip install transformers)"
        ) from error
    # The Rust side of `tokenizers` raises bare exceptions.
    except Exception as error:
        raise ValueError(f"tokenizer: {str(folder)!r} cannot be read: {error}") from error


def _marks(folder: Path) -> dict[str, str]:
    """The marks that the configuration beside a tokenizer.json names, by their roles."""
    marks: dict[str, str] = {}
    for name in _CONFIGS:
        if not (folder / name).is_file():
            continue
        config = json.loads((folder / name).read_bytes())
        for role in ("bos_token", "eos_token"):
            token = config.get(role)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                marks.setdefault(role, token)
    return marks
