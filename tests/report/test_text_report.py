"""Reports of language-model runs."""

import pytest

from lt2theory.models import LoopedConfig
from lt2theory.report.dispatch import report_path
from lt2theory.report.html import render
from lt2theory.report.text_report import text_run_content
from lt2theory.runs import RunFolder, read_json, write_json
from lt2theory.training.lm import LmConfig, resolve
from lt2theory.training.text import Corpus, CorpusConfig, prepare, xz_baseline

SUMMARY = {
    "status": "finished", "steps": 20, "tokens": 640, "parameters": 1234,
    "timing": {"seconds": 3.0, "training_seconds": 2.0, "tokens_per_second": 320.0},
}  # fmt: skip


@pytest.fixture(scope="module", name="corpus")
def corpus_fixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    prepare(CorpusConfig(sources=("excerpt",), piece_bytes=2000), folder / "corpus")
    return Corpus(folder / "corpus")


@pytest.fixture
def write_text_run(tmp_path, corpus):
    """A folder of 20 steps with evaluations at 10 and 20, a spike and one reading."""

    def write(*, bits=(3.0, 1.2), summary=SUMMARY, note=True, lines=True):
        config = LmConfig(model=LoopedConfig(vocab_size=258), steps=20, sequence_length=32)
        config = resolve(config, corpus)
        path = tmp_path / "run"
        with RunFolder.writing(
            path, kind="lm", config=config.to_json(), identity=config.identity()
        ) as run:
            for step, value in zip((10, 20) if lines else (), bits, strict=False):
                losses = {"loss": 6.0 - step / 10, "loop_1_loss": 7.0, "loop_2_loss": 5.0}
                run.append_metrics({"split": "train", "step": step, "metrics": losses})
                found = {"split": "eval", "step": step, "n": 4}
                run.append_metrics({**found, "metrics": {"bits_per_byte": value}})
                speed = {
                    "tokens_per_second": 300.0 + step,
                    "mfu": 0.2,
                    "peak_memory_gib": step / 10,
                }
                run.append_timing({"step": step, "seconds": 1.0, **speed})
            if lines:
                event = {"split": "event", "step": 7, "metrics": {"spike": 1, "loss": 9.5}}
                run.append_metrics(event)
                few = {"rms_loop_1": 1.0, "rms_loop_2": 2.0, "massive": 4.0}
                reading = {"split": "stability", "step": 20}
                run.append_metrics({**reading, "metrics": few})
                curves = {"rms": [1.0, 1.5, 1.7, 2.0]}
                places = {"positions": [0, 1, 2, 3], "curves": curves}
                run.append_metrics({**reading, "metrics": {}, **places})
            if note:
                write_json(path / "corpus.json", {"folder": str(corpus.folder), "manifest": {}})
            if summary is not None:
                run.write_summary(summary)
        return path

    return write


def content(path):
    return text_run_content(RunFolder.open(path))


def test_a_run_is_told_beside_xz(write_text_run, corpus, line):
    path = write_text_run()
    report = content(path)
    assert report.summary == ["A model of 1,234 parameters was trained for 20 steps, 640 tokens."]
    assert [section.title for section in report.sections] == [
        "Training", "Instruments during training", "Speed", "Steps that went wrong", "Setting",
    ]  # fmt: skip
    training, instruments, speed, events, setting = report.sections
    xz = xz_baseline(corpus)
    assert training.happened == [
        "Training loss: 5.000 nats a token at step 10, 4.000 at step 20.",
        "Held out: 1.2000 bits per byte at step 20 (4 documents); the least so far.",
        f"Bits per byte of xz -9 {xz.alone:.4f}, xz -9 after the training text {xz.primed:.4f}: "
        "the model spends less than both.",
        f"That is {100 * (1 - 1.2 / xz.primed):.1f} % less than xz with the text.",
    ]
    loss, bits = training.figures[0].figure.axes
    assert line(loss, "loss").tolist() == [[10, 5.0], [20, 4.0]]
    assert line(loss, "loop 2")[:, 1].tolist() == [5.0, 5.0]
    assert line(bits, "model").tolist() == [[10, 3.0], [20, 1.2]]
    assert line(bits, "xz -9")[0, 1] == pytest.approx(xz.alone)
    assert len(instruments.figures) == 2
    assert speed.happened == [
        "Median: 315 tokens a second, 20.0 % of the device's peak, at most 2.0 GiB of memory."
    ]
    assert len(speed.figures[0].figure.axes) == 3
    assert events.tables[0].frame.to_dict("list") == {
        "step": [7], "what": ["spike"], "loss": ["9.500"],
    }  # fmt: skip
    rows = dict(setting.tables[0].frame.to_records(index=False))
    assert rows["parameters"] == "1,234"
    assert rows["optimiser.schedule"] == "cosine"
    assert "bits per byte" in render(report)


def test_xz_is_measured_once(write_text_run, monkeypatch):
    path = write_text_run(bits=(3.0, 99.0))
    assert content(path).sections[0].happened[-1].endswith("the model spends no less than either.")
    kept = read_json(path / "xz.json")
    monkeypatch.setattr("lt2theory.report.text_baseline.xz_baseline", None)
    assert "xz -9" in content(path).sections[0].happened[-1]
    write_json(path / "xz.json", kept | {"corpus": "other"})
    (path / "corpus.json").unlink()
    training = content(path).sections[0]
    assert training.notes == [
        "The corpus is not at its place any more, so xz is not shown beside it."
    ]
    assert len(training.happened) == 2


def test_unfinished_and_diverged_runs(write_text_run):
    path = write_text_run(summary=None)
    assert content(path).summary[0].startswith("The run is not finished")
    with RunFolder.writing(
        path, kind="lm", config=RunFolder.open(path).config, identity=RunFolder.open(path).identity
    ) as run:
        run.write_summary(SUMMARY | {"status": "diverged"})
    assert "diverged after 20 steps" in content(path).summary[0]
    write_json(path / "summary.json", {"status": "finished"})
    with pytest.raises(ValueError, match=r"summary.json is damaged, it lacks parameters"):
        content(path)


def test_a_run_without_records_is_refused(write_text_run):
    with pytest.raises(ValueError, match="has measured nothing yet"):
        content(write_text_run(lines=False, summary=None))


def test_lt2_report_finds_the_kind(write_text_run):
    html = report_path(write_text_run()).read_text(encoding="utf-8")
    assert "lm: language model, seed 0" in html
