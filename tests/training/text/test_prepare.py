"""Preparation: the same bytes for any number of processes, all or nothing, splits by content."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lt2theory.runs import ProgressEvent, write_json
from lt2theory.training.text import Corpus, CorpusConfig, prepare
from lt2theory.training.text import encoding as encoding_module
from lt2theory.training.text import writing as writing_module
from lt2theory.training.text.manifest import MANIFEST
from lt2theory.training.text.prepare import split_of
from tests.training.text.conftest import MakeCorpus

TEXTS = ["one", "", "zwei\r\n", "\N{GRINNING FACE} emoji", "a" * 1001, "日本語", "x"]


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.tokens"))}


def texts_of(corpus: Corpus, split: str) -> list[str]:
    stream, tokenizer = corpus.stream(split), corpus.tokenizer()
    found = []
    for index in range(stream.num_documents):
        tokens, size = stream.document(index)
        text = tokenizer.decode(tokens[1:-1])
        assert len(text) == size
        found.append(text.decode())
    return found


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe"])
@pytest.mark.parametrize("shard_tokens", [1, 10, 1 << 20])
def test_round_trip(
    tokenizer: str, shard_tokens: int, make_corpus: MakeCorpus, request: pytest.FixtureRequest
) -> None:
    name = tokenizer if tokenizer == "bytes" else str(request.getfixturevalue("bpe"))
    corpus = make_corpus(TEXTS, tokenizer=name, shard_tokens=shard_tokens)
    assert texts_of(corpus, "train") == [text for text in TEXTS if text]
    manifest = corpus.manifest
    assert manifest.tokenizer.lossless
    assert manifest.source.documents == 6
    assert manifest.source.bytes == sum(len(text.encode()) for text in TEXTS)
    if shard_tokens != 10:
        assert len(manifest.splits["train"].shards) == (6 if shard_tokens == 1 else 1)
    assert corpus.damaged() == []


def test_processes_change_no_byte(
    make_corpus: MakeCorpus, bpe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding_module, "_CHUNK_BYTES", 40)
    texts = [f"the cat {n} and the dog {n % 7}" * (n % 5) for n in range(60)]
    options = {"tokenizer": str(bpe), "shard_tokens": 200, "eval_share": 0.2, "test_share": 0.2}
    here = make_corpus(texts, **options)
    there = make_corpus(texts, workers=2, **options)
    assert len(shards(here.folder)) > 3
    assert shards(here.folder) == shards(there.folder)
    assert here.manifest.splits == there.manifest.splits
    assert here.manifest.source.digest == there.manifest.source.digest


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_arrives_with_its_place(workers: int, tmp_path: Path, bpe: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    config = CorpusConfig(sources=(str(tmp_path),), tokenizer=str(bpe))
    with pytest.raises(ValueError, match=r"b.txt: byte 3 is no UTF-8, which tokenizer"):
        prepare(config, tmp_path / "out", workers=workers)
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_bytes_need_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(range(256)))
    config = CorpusConfig(sources=(str(tmp_path / "a.txt"),), eval_share=0, test_share=0)
    prepare(config, tmp_path / "out")
    tokens, size = Corpus(tmp_path / "out").stream("train").document(0)
    assert tokens.tolist() == [256, *range(256), 257]
    assert size == 256


def test_splits_follow_the_content(make_corpus: MakeCorpus) -> None:
    """Shares are kept, equal documents stay together, order and place do not matter."""
    texts = [f"document {n}" for n in range(2000)]
    shares = {"eval_share": 0.1, "test_share": 0.2}
    corpus = make_corpus([*texts, *texts[:50]], **shares)
    found = {split: texts_of(corpus, split) for split in ("train", "eval", "test")}
    sets = {split: set(texts) for split, texts in found.items()}
    assert (
        not sets["train"] & sets["eval"]
        | sets["train"] & sets["test"]
        | sets["eval"] & sets["test"]
    )
    assert len(sets["eval"]) == pytest.approx(200, abs=60)
    assert len(sets["test"]) == pytest.approx(400, abs=80)
    backwards = make_corpus(texts[::-1], **shares)
    assert {split: set(texts_of(backwards, split)) for split in sets} == sets
    other = make_corpus(texts, split_key=1, **shares)
    assert set(texts_of(other, "eval")) != sets["eval"]


def test_shares_nest() -> None:
    """A smaller share holds out a part of what a larger one did."""
    digests = [n.to_bytes(16, "little") for n in range(500)]

    def held_out(share: float) -> set[bytes]:
        config = CorpusConfig(sources=("excerpt",), eval_share=share, test_share=0)
        return {digest for digest in digests if split_of(digest, config) == "eval"}

    assert held_out(0.05) < held_out(0.2)
    assert held_out(0) == set()


def test_done_before(tmp_path: Path) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text("some text\n\nmore")
    config = CorpusConfig(sources=(str(source),), eval_share=0, test_share=0)
    first, before = prepare(config, out)
    assert not before
    stamp = (out / "train-00000.tokens").stat().st_mtime_ns
    assert prepare(config, out) == (first, True)
    assert (out / "train-00000.tokens").stat().st_mtime_ns == stamp
    changed = config.model_copy(update={"separator": "\n\n"})
    with pytest.raises(ValueError, match="holds a corpus of other options"):
        prepare(changed, out)
    assert Corpus(out).stream("train").num_documents == 1
    _, before = prepare(changed, out, overwrite=True)
    assert not before
    assert Corpus(out).stream("train").num_documents == 2
    source.write_text("another size of text\n\nmore")
    with pytest.raises(ValueError, match="or other files"):
        prepare(changed, out)


def test_refusals(tmp_path: Path) -> None:
    config = CorpusConfig(sources=("excerpt",))
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(ValueError, match=r"cannot hold a corpus: notes.md is in it"):
        prepare(config, tmp_path)
    with pytest.raises(ValueError, match="workers: -1 must be >= 0"):
        prepare(config, tmp_path / "out", workers=-1)
    with pytest.raises(ValueError, match=r"no such file or folder"):
        prepare(CorpusConfig(sources=("none",)), tmp_path / "out")
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", {"kind": "lm", "identity": {}})
    with pytest.raises(ValueError, match="must hold text; it is a run of kind lm"):
        prepare(CorpusConfig(sources=(str(tmp_path / "run"),)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="hold no document with text"):
        prepare(CorpusConfig(sources=(str(tmp_path / "empty.txt"),)), tmp_path / "out")
    with pytest.raises(ValueError, match="is no prepared corpus"):
        Corpus(tmp_path / "out")
    with pytest.raises(ValueError, match=r"eval_share: 0.5 with test_share 0.5 leaves nothing"):
        CorpusConfig(sources=("a",), eval_share=0.5, test_share=0.5)


def test_a_failure_leaves_no_half_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was whole is swept up by the next preparation, which gives the same bytes."""
    options = {"separator": r"\n\n\n", "shard_tokens": 5000}
    config = CorpusConfig.model_validate({"sources": ["excerpt"], **options})
    prepare(config, tmp_path / "whole")
    write, calls = writing_module.write_shard, 0

    def failing(*args: object, **options: object) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(28, "No space left on device")
        return write(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(writing_module, "write_shard", failing)
    with pytest.raises(OSError, match="No space left"):
        prepare(config, tmp_path / "out")
    whole = shards(tmp_path / "whole")
    left = shards(tmp_path / "out")
    assert len(left) == 3
    assert left.items() <= whole.items()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(left)
    (tmp_path / "out" / ".train-00009.tokens.1.tmp").write_bytes(b"half")
    (tmp_path / "out" / "train-00099.tokens").write_bytes(b"of another corpus")
    monkeypatch.setattr(writing_module, "write_shard", write)
    prepare(config, tmp_path / "out")
    assert shards(tmp_path / "out") == whole
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*whole, MANIFEST}


KILLED = """
import sys, time
from pathlib import Path
from lt2theory.training.text import CorpusConfig, prepare, writing
write = writing.write_shard
def slow(*args, **options):
    write(*args, **options)
    print("shard", flush=True)
    time.sleep(0.05)
    return b""
writing.write_shard = slow
if __name__ == "__main__":
    config = CorpusConfig(sources=("excerpt",), separator=r"\\n\\n\\n", shard_tokens=500)
    prepare(config, Path(sys.argv[1]), workers=1)
"""


@pytest.mark.slow
def test_killed_in_the_middle(tmp_path: Path) -> None:
    """No half shard, no manifest, and no process is left behind; the same command starts again."""
    script, out = tmp_path / "prepare.py", tmp_path / "out"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "shard\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        process.send_signal(signal.SIGKILL)
    assert not (out / MANIFEST).exists()
    config = CorpusConfig(sources=("excerpt",), separator=r"\n\n\n", shard_tokens=500)
    left = shards(out)
    prepare(config, out)
    assert left
    assert left.items() <= shards(out).items()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in workers if alive(pid)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_lossy_tokenizer_is_noticed(bpe: Path, tmp_path: Path, make_corpus: MakeCorpus) -> None:
    import tokenizers

    backend = tokenizers.Tokenizer.from_file(str(bpe / "tokenizer.json"))
    backend.normalizer = tokenizers.normalizers.Lowercase()
    backend.save(str(tmp_path / "tokenizer.json"))
    marks = (bpe / "tokenizer_config.json").read_text()
    (tmp_path / "tokenizer_config.json").write_text(marks)
    assert not make_corpus(["THE CAT"], tokenizer=str(tmp_path)).manifest.tokenizer.lossless
    assert make_corpus(["the cat"], tokenizer=str(tmp_path)).manifest.tokenizer.lossless


def test_a_changed_tokenizer_and_a_damaged_manifest_are_refused(
    bpe: Path, tmp_path: Path, make_corpus: MakeCorpus
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((bpe / name).read_bytes())
    corpus = make_corpus(["the cat"], tokenizer=str(tmp_path))
    config = {"bos_token": "</s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has changed since"):
        corpus.tokenizer()
    path = corpus.folder / MANIFEST
    value = json.loads(path.read_text())
    value["splits"]["train"]["shards"][0]["name"] = "../train-00000.tokens"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=r"is damaged: splits.train.shards.0.name"):
        Corpus(corpus.folder)
    path.write_text(json.dumps(value | {"version": 2}))
    with pytest.raises(ValueError, match="is of version 2"):
        Corpus(corpus.folder)


def test_damage_to_a_shard_is_found(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["one", "two", "three"])
    path = corpus.folder / "train-00000.tokens"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert corpus.damaged() == ["train-00000.tokens"]
    path.unlink()
    assert corpus.damaged() == ["train-00000.tokens"]
    with pytest.raises(ValueError, match="cannot be read"):
        corpus.stream("train")


def test_progress_counts_to_its_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.txt"
    path.write_bytes(rng.integers(97, 123, 3 << 20, dtype=np.uint8).tobytes())
    events: list[ProgressEvent] = []
    config = CorpusConfig(sources=(str(path),), piece_bytes=1 << 19)
    prepare(config, tmp_path / "out", progress=events.append)
    assert [event.done for event in events] == [1, 2, 3, 3]
    assert {event.total for event in events} == {3}
    assert [event.final for event in events] == [False, False, False, True]
