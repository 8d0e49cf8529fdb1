"""Where text comes from: files, folders, the excerpt in this package, and Hugging Face datasets."""

import gzip
import json
import zlib
from collections.abc import Iterator
from importlib.resources import files
from io import BufferedIOBase
from pathlib import Path

from lt2theory.runs.found import known
from lt2theory.training.text.config import CorpusConfig
from lt2theory.training.text.cutting import cut
from lt2theory.training.text.documents import DATASET, Document, Source, encoded
from tasks.names import CLOSE, nearest

EXCERPT = "excerpt"
TEXT_SUFFIXES = (".txt", ".md", ".rst", ".text")
SUFFIXES = (*TEXT_SUFFIXES, ".jsonl", ".parquet")

_ANY = "**/*"


def open_source(name: str, config: CorpusConfig) -> Source:
    """Find a source by its name.

    Args:
        name: One of `config.sources`.
        config: How its files are read.

    Returns:
        The source.

    Raises:
        ValueError: There is no such file or folder, or nothing in it.
    """
    if name.startswith(DATASET):
        # `datasets` takes seconds to import.
        from lt2theory.training.text.hub import HubSource

        return HubSource(name, config.text_field)
    if name == EXCERPT:
        root = Path(str(files("lt2theory.training.text") / EXCERPT))
        return FileSource(root, tuple(sorted(root.glob("*.txt"))), config)
    path = Path(name)
    if path.is_file():
        return FileSource(path.parent, (path,), config)
    if not path.is_dir():
        hint = f", perhaps you meant {EXCERPT}" if nearest(name, [EXCERPT], alike=CLOSE) else ""
        raise ValueError(f"sources: {name!r} is not allowed{hint} (no such file or folder)")
    if (other := known(path)) is not None:
        raise ValueError(f"sources: {name!r} is not allowed (must hold text; it is {other})")
    found = tuple(_below(path, config.glob))
    if not found:
        wanted = " or ".join(SUFFIXES) if config.glob == _ANY else repr(config.glob)
        raise ValueError(f"sources: {name!r} is not allowed (no file of it matches {wanted})")
    return FileSource(path, found, config)


def _below(folder: Path, glob: str) -> list[Path]:
    """Files of a folder by their names, without hidden ones."""
    try:
        matches = list(folder.glob(glob))
    except (ValueError, NotImplementedError) as error:
        reason = str(error).lower()
        raise ValueError(
            f"glob: {glob!r} is not allowed (must be a pattern of paths below a folder: {reason})"
        ) from error
    names = []
    for path in matches:
        inner = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inner.parts)
        readable = glob != _ANY or inner.name.removesuffix(".gz").endswith(SUFFIXES)
        if readable and not hidden and path.is_file():
            names.append(inner.as_posix())
    # By the whole name as text: the same order on every system.
    return [folder / name for name in sorted(names)]


class FileSource:
    """Documents of files: text, or JSON lines and Parquet with a field of text.

    Args:
        root: The folder below which the files are named.
        paths: The files in order.
        config: How they are read.
    """

    def __init__(self, root: Path, paths: tuple[Path, ...], config: CorpusConfig) -> None:
        self._root = root
        self._paths = paths
        self._config = config

    def listing(self) -> list[tuple[str, int]]:
        """Names below the root and sizes.

        Returns:
            One pair a file.
        """
        return [(p.relative_to(self._root).as_posix(), p.stat().st_size) for p in self._paths]

    def documents(self) -> Iterator[Document]:
        """Documents of all files.

        Yields:
            One after the other.

        Raises:
            ValueError: A file cannot be read as what its name says it is.
        """
        for path in self._paths:
            try:
                yield from self._of(path)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"{path} cannot be read: {error}") from error

    def _of(self, path: Path) -> Iterator[Document]:
        """Documents of one file."""
        name = path.name.removesuffix(".gz")
        if name.endswith(".parquet"):
            yield from _of_parquet(path, self._config.text_field)
            return
        with _opened(path) as file:
            if name.endswith(".jsonl"):
                yield from _of_lines(file, path, self._config.text_field)
                return
            texts = cut(
                file,
                str(path),
                separator=self._config.separator_bytes,
                piece_bytes=self._config.piece_bytes,
            )
            for text in texts:
                yield Document(text, str(path))


def _opened(path: Path) -> BufferedIOBase:
    """A file for reading, unpacked on the way where it is compressed."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _of_lines(file: BufferedIOBase, path: Path, field: str) -> Iterator[Document]:
    """Documents of JSON lines; empty lines are passed over."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        origin = f"{path}:{number}"
        try:
            value = json.loads(line)
        # Deep nesting ends the parser's recursion.
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{origin} is not valid JSON: {error}") from error
        text = value.get(field) if isinstance(value, dict) else None
        yield Document(encoded(text, field, origin), origin)


def _of_parquet(path: Path, field: str) -> Iterator[Document]:
    """Documents of a column of strings; missing ones are empty."""
    # pyarrow takes a moment to import, and only Parquet needs it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if field not in file.schema_arrow.names:
                names = ", ".join(file.schema_arrow.names)
                raise ValueError(f"text_field: {path} has no column {field!r} (it has {names})")
            row = 0
            for batch in file.iter_batches(columns=[field], batch_size=1024):
                for text in batch.column(0).to_pylist():
                    origin = f"{path}:{row}"
                    yield Document(encoded("" if text is None else text, field, origin), origin)
                    row += 1
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from error
