"""`lt2 data fetch|prepare|show`: text for language models, as token shards."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from lt2theory.cli.errors import CHECK_FAILED, DONE
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import leading_name, parse

if TYPE_CHECKING:
    from lt2theory.training.text import Corpus, Manifest


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """Where the files go."""

    out: Path
    """New folder for the text files, and source.json with their package and licence."""


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """Where the corpus goes."""

    out: Path
    """Folder of the corpus; a corpus that is there with the same options is done before."""
    workers: int = 0
    """Processes that tokenise beside this one; they pay where the tokenizer is slow."""
    overwrite: bool = False
    """Replace a corpus of other options or files."""


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """What is shown of a corpus."""

    path: tyro.conf.Positional[Path]
    """Folder of the corpus."""
    split: Literal["train", "eval", "test"] = "train"
    """Split of the document that is shown."""
    document: int = 0
    """Which document of the split."""
    characters: int = 400
    """How much of it is shown."""
    verify: bool = False
    """Read every shard and compare it with the manifest; the exit code is 1 if one differs."""
    xz: bool = False
    """Compress the eval split with xz -9, alone and after the training text (0.7 GB of memory)."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: One is not allowed.
        """
        if self.characters < 0:
            raise ValueError(f"characters: got {self.characters}, allowed are whole numbers >= 0")


def fetch(argv: list[str]) -> int:
    """Download a corpus that comes as a Debian package.

    Args:
        argv: The arguments after the verb: a corpus's name, and flags.

    Returns:
        The exit code.
    """
    from lt2theory.training.text.packages import PACKAGES
    from lt2theory.training.text.packages import fetch as fetch_package

    usage = "lt2 data fetch"
    name, rest = leading_name(argv, PACKAGES, usage=usage, what="corpus")
    description = "Download text that comes as a Debian package with apt-get; nothing is installed."
    (options,) = parse(f"{usage} {name}", rest, description, options=FetchOptions)
    check_folder(options.out, "--out")
    count = fetch_package(name, options.out)
    print(f"{PACKAGES[name].summary}; licence: {PACKAGES[name].licence}; {count} files")
    print(options.out)
    return DONE


def prepare(argv: list[str]) -> int:
    """Tokenise text into a corpus, and print its folder last.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    from lt2theory.runs import TerminalProgress, write_json
    from lt2theory.training.text import CorpusConfig
    from lt2theory.training.text import prepare as prepare_corpus

    description = (
        "Tokenise files into shards that training maps into memory, with documents held out by a "
        "hash of what they say. The bytes do not depend on the number of workers."
    )
    config, options, copy = parse(
        "lt2 data prepare",
        argv,
        description,
        config=CorpusConfig,
        options=PrepareOptions,
        copy=JsonCopy,
    )
    check_folder(options.out, "--out")
    check_file(copy.json, "--json")
    manifest, before = prepare_corpus(
        config,
        options.out,
        workers=options.workers,
        overwrite=options.overwrite,
        progress=TerminalProgress(),
    )
    if copy.json is not None:
        write_json(copy.json, manifest.model_dump(mode="json"))
    if before:
        print("done before")
    _print(manifest)
    print(options.out)
    return DONE


def show(argv: list[str]) -> int:
    """Print what a corpus holds, and the beginning of a document.

    Args:
        argv: The arguments after the verb.

    Returns:
        0, or 1 if `--verify` found a damaged shard.
    """
    from lt2theory.runs import write_json
    from lt2theory.training.text import Corpus, xz_baseline

    description = "Print what a corpus holds, and the beginning of one of its documents."
    options, copy = parse("lt2 data show", argv, description, options=ShowOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    corpus = Corpus(options.path)
    damaged = corpus.damaged() if options.verify else []
    # What is damaged cannot always be read, and is not shown.
    shown = "" if damaged else _document(corpus, options)
    result = corpus.manifest.model_dump(mode="json")
    _print(corpus.manifest)
    if shown:
        print(shown)
    if options.verify:
        result["damaged"] = damaged
        print(f"damaged: {', '.join(damaged)}" if damaged else "every shard is what it was")
    if options.xz and not damaged:
        found = xz_baseline(corpus)
        result["xz"] = {"alone": found.alone, "primed": found.primed}
        print(f"xz -9 of the eval split: {found.alone:.3f} bits per byte alone,")
        print(f"  {found.primed:.3f} after {found.training_bytes} bytes of training text")
    if copy.json is not None:
        write_json(copy.json, result)
    return CHECK_FAILED if damaged else DONE


def _print(manifest: "Manifest") -> None:
    """Print a line about the tokenizer and one a split."""
    tokenizer = manifest.tokenizer
    loss = "" if tokenizer.lossless else "; it does not give every text back"
    print(f"tokenizer {tokenizer.name}, {tokenizer.vocab_size} ids{loss}")
    for name, split in manifest.splits.items():
        share = split.bytes / max(split.tokens - 2 * split.documents, 1)
        print(
            f"  {name:<5} {split.documents} documents, {split.bytes} bytes, {split.tokens} tokens "
            f"({share:.2f} bytes a token), {len(split.shards)} shards"
        )


def _document(corpus: "Corpus", options: ShowOptions) -> str:
    """Return the beginning of a document as one can print it, without control characters."""
    tokens, size = corpus.stream(options.split).document(options.document)
    # A character has at most four bytes, and a token at least one.
    text = (
        corpus.tokenizer().decode(tokens[1:-1][: 4 * options.characters]).decode(errors="replace")
    )
    safe = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    head = f"document {options.document} of {options.split}, {size} bytes:"
    return f"{head}\n{safe[: options.characters]}"
