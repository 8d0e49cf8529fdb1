"""lm-evaluation-harness on a saved model, in a process of its own and without the network."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.hf import LoopedLTForCausalLM, harness
from lt2theory.hf.needle import GROUP, write_needle_tasks
from lt2theory.hf.tokenizer import byte_tokenizer
from lt2theory.models import LoopedConfig, LoopedModel, generate

pytestmark = pytest.mark.slow
MISSING = [name for name in ("lm_eval", "accelerate") if not importlib.util.find_spec(name)]
BEGIN = 256
CHOICES = [
    {"question": "the sky is", "options": [" blue", " a rather long answer"], "label": 0},
    {"question": "2 + 2 =", "options": [" 5", " 4"], "label": 1},
    {"question": "", "options": [" a", " b", " c"], "label": 2},
]
TEXTS = ["To be, or not to be.", "Zürich", "x" * 70]
CHOICE = """\
task: choice
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{options}}"
doc_to_target: label
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
ROLLING = """\
task: rolling
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: bits_per_byte}]
"""


def save_task(folder: Path, name: str, form: str, rows: list[dict[str, Any]]) -> None:
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"{name}.yaml").write_text(form % data)


def log_likelihood(model: LoopedModel, before: str, text: str, marks: int = 1) -> float:
    """Of a text after another, a byte a token; of the marks before it only the first is given."""
    context, ids = [BEGIN, *before.encode()], [BEGIN] * (marks - 1) + list(text.encode())
    logits = model(torch.tensor([context + ids])).double().log_softmax(-1)[0]
    at = range(len(context) - 1, len(context) + len(ids) - 1)
    return sum(float(logits[i, token]) for i, token in zip(at, ids, strict=True))


@pytest.fixture(scope="module", name="ran")
def ran_fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoopedModel, Path]:
    """A model and the folder of what `lm_eval --model hf` wrote about it."""
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} not installed: pip install 'lt2theory[hf]'")
    folder = tmp_path_factory.mktemp("harness")
    config = LoopedConfig(vocab_size=258, pattern="gdn,full", width=16, init_std=0.3)
    model = LoopedModel(config)
    wrapped = LoopedLTForCausalLM.from_looped(model, eos_token_id=257, pad_token_id=257)
    wrapped.save_pretrained(folder / "model")
    byte_tokenizer().save_pretrained(folder / "model")
    tasks = folder / "tasks"
    write_needle_tasks(tasks, stages=(40, 64), size=3)
    save_task(tasks, "choice", CHOICE, CHOICES)
    save_task(tasks, "rolling", ROLLING, [{"text": text} for text in TEXTS])
    command = [sys.executable, "-m", "lt2theory.hf.harness", "run", "--model", "hf"]
    command += ["--model_args", f"pretrained={folder / 'model'},max_length=512,dtype=float32"]
    command += ["--tasks", f"{GROUP},choice,rolling", "--include_path", str(tasks)]
    command += ["--device", "cpu", "--batch_size", "4", "--log_samples"]
    command += ["--output_path", str(folder / "out")]
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
    done = subprocess.run(
        command,
        env={**os.environ, **offline, "HF_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return model, folder / "out"


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    (file,) = folder.rglob(f"samples_{task}_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(rows, key=lambda row: int(row["doc_id"]))


def score(folder: Path, task: str, metric: str) -> float:
    (file,) = folder.rglob("results_*.json")
    return float(json.loads(file.read_text())["results"][task][f"{metric},none"])


@torch.no_grad()
def test_choices_have_the_model_s_likelihoods(ran: tuple[LoopedModel, Path]) -> None:
    model, out = ran
    right = 0
    for row, doc in zip(samples(out, "choice"), CHOICES, strict=True):
        wanted = [log_likelihood(model, doc["question"], option) for option in doc["options"]]
        got = [float(answer[0][0]) for answer in row["resps"]]
        assert got == pytest.approx(wanted, abs=1e-3)
        right += max(range(len(wanted)), key=wanted.__getitem__) == doc["label"]
    assert score(out, "choice", "acc") == pytest.approx(right / len(CHOICES))


@torch.no_grad()
def test_bits_per_byte(ran: tuple[LoopedModel, Path]) -> None:
    model, out = ran
    # lm_eval puts a mark before the one of the tokenizer, whose likelihood then counts.
    nats = -sum(log_likelihood(model, "", text, marks=2) for text in TEXTS)
    size = sum(len(text.encode()) for text in TEXTS)
    assert score(out, "rolling", "bits_per_byte") == pytest.approx(nats / size / math.log(2))


def test_needles_are_answered_from_padded_batches(ran: tuple[LoopedModel, Path]) -> None:
    model, out = ran
    for task in (f"{GROUP}_40", f"{GROUP}_64"):
        for row in samples(out, task):
            prompt = torch.tensor([[BEGIN, *row["doc"]["context"].encode()]])
            new = generate(model, prompt, 9, stop_ids=(257,)).tokens[0].tolist()
            text = bytes(token for token in new if token < 256).decode(errors="replace")
            cut = min((text.index(stop) for stop in ".\n" if stop in text), default=len(text))
            assert row["resps"][0][0] == text[:cut]
    assert 0 <= score(out, GROUP, "exact_match") <= 1


def test_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.__main__", None)
    with pytest.raises(SystemExit, match=r"pip install 'lt2theory\[hf\]'"):
        harness.main()
