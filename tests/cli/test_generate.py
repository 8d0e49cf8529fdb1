"""`lt2 generate`: texts of a run and of the same model saved for transformers."""

import json
import shutil
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.experiments.text_models import continue_text, open_text_model
from lt2theory.models import LoopedConfig, LoopedModel, at_depth
from lt2theory.training.lm import load_lm
from tests.kernel_runs import name_kernels

Output = pytest.CaptureFixture[str]

TRAIN = """
    --preset toy-full-gdn --model.vocab-size 258 --steps 3 --batch-size 2 --sequence-length 32
    --evaluate-every 0 --threads 1
"""


@pytest.fixture(scope="module", name="trained")
def trained_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    data = ["--sources", "excerpt", "--piece-bytes", "500", "--out", str(folder / "corpus")]
    assert main(["data", "prepare", *data]) == 0
    options = ["--data", str(folder / "corpus"), "--out", str(folder / "run")]
    assert main(["train", *options, *TRAIN.split()]) == 0
    return folder / "run"


def greedy(model: LoopedModel, prompt: bytes, count: int) -> bytes:
    """By recomputation of the whole text for every byte."""
    import torch

    ids = [256, *prompt]
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    return bytes(ids[1 + len(prompt) :])


def test_texts_of_a_run(trained: Path, tmp_path: Path, capsys: Output) -> None:
    copy = tmp_path / "text.json"
    options = ["--prompt", "Ünd", "--max-new-tokens", "12", "--json", str(copy)]
    assert main(["generate", str(trained), *options, "--greedy"]) == 0
    (row,) = json.loads(copy.read_text())["continuations"]
    wanted = greedy(load_lm(trained)[0], "Ünd".encode(), 12).decode(errors="replace")
    assert row == {"text": wanted, "tokens": 12, "ended": False, "loops": None}
    assert capsys.readouterr().out == f"Ünd{wanted}\n"


def test_ways_of_reading(trained: Path, capsys: Output) -> None:
    """Fixed buffers give the same text, another depth that of a model of fewer loops."""
    texts = []
    for way in (["--fast", "False"], ["--fast", "True"], ["--num-loops", "1"]):
        options = ["--prompt", "Und", "--max-new-tokens", "12", "--greedy", *way]
        assert main(["generate", str(trained), *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    wanted = greedy(at_depth(load_lm(trained)[0], 1), b"Und", 12).decode(errors="replace")
    assert texts[2] == f"Und{wanted}\n"


def test_leaving_early(tmp_path: Path, capsys: Output) -> None:
    import torch

    from lt2theory.hf import LoopedLTForCausalLM
    from lt2theory.hf.tokenizer import byte_tokenizer

    config = LoopedConfig(vocab_size=258, num_loops=3, exit_gate=True)
    model = LoopedModel(config, generator=torch.Generator().manual_seed(3))
    LoopedLTForCausalLM.from_looped(model).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    copy = tmp_path / "text.json"
    for threshold, loops in (("0.6", 2), ("1", 3)):
        options = ["--exit-threshold", threshold, "--max-new-tokens", "4", "--json", str(copy)]
        assert main(["generate", str(tmp_path), *options, "--greedy"]) == 0
        assert f"({loops}.00 loops a token)" in capsys.readouterr().out
        assert json.loads(copy.read_text())["continuations"][0]["loops"] == 4 * [loops]


@pytest.mark.parametrize("backend", ["triton", "fla"])
def test_a_saved_model_that_names_kernels_writes_on_a_cpu(
    backend: str, tmp_path: Path, capsys: Output
) -> None:
    import torch

    from lt2theory.hf import LoopedLTForCausalLM
    from lt2theory.hf.tokenizer import byte_tokenizer

    byte_tokenizer().save_pretrained(tmp_path)
    texts = []
    for name in ("auto", backend):
        config = LoopedConfig(vocab_size=258, num_loops=2, backend=name)
        model = LoopedModel(config, generator=torch.Generator().manual_seed(3))
        LoopedLTForCausalLM.from_looped(model.bfloat16()).save_pretrained(tmp_path)
        assert main(["generate", str(tmp_path), "--max-new-tokens", "4", "--greedy"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert open_text_model(tmp_path).model.config.backend == "auto"
    assert open_text_model(tmp_path).model.embedding.weight.dtype == torch.bfloat16


def test_draws_follow_the_seed(trained: Path, capsys: Output) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        options = ["--max-new-tokens", "9", "--samples", "2", "--top-k", "40", "--seed", seed]
        assert main(["generate", str(trained), *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("--- 1 of 2\n")


def test_a_saved_model_writes_the_same(trained: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from lt2theory.hf.export import export_run

    export_run(trained, tmp_path)
    before, after = (
        continue_text(open_text_model(path), "To be", max_new_tokens=9)
        for path in (trained, tmp_path)
    )
    assert before == after
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (256, 257)
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    assert (saved["bos_token_id"], saved["eos_token_id"], saved["pad_token_id"]) == (256, 257, 257)


def test_an_export_leaves_kernels_that_a_run_names_to_auto(trained: Path, tmp_path: Path) -> None:
    from lt2theory.hf.export import export_run

    run = shutil.copytree(trained, tmp_path / "run")
    name_kernels(run)
    export_run(run, tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert saved["looped"]["backend"] == "auto"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "0"], "samples: 0"),
        (["--max-new-tokens=-1"], "--max-new-tokens: -1"),
        (["--temperature", "0"], "temperature: 0"),
        (["--temperature", "1e-50"], "temperature: 1e-50 must be >= 1e-30"),
        (["--seed", str(2**64)], "seed: got 18446744073709551616, allowed are whole numbers"),
        (["--prompt", "\udcff"], "prompt: got"),
        (["--device", "tpu"], "device"),
        (["--num-loops", "9"], "--num-loops: 9"),
        (["--exit-threshold", "0.5"], "the model has no exit gate"),
        (["--exit-threshold", "2"], "--exit-threshold: 2.0"),
        (["--json", "no/such/folder.json"], "--json"),
    ],
)
def test_refusals(trained: Path, capsys: Output, options: list[str], message: str) -> None:
    assert main(["generate", str(trained), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_folders_without_a_model(tmp_path: Path, capsys: Output) -> None:
    assert main(["generate", str(tmp_path)]) == 2
    assert "holds no run of lt2 train" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert main(["generate", str(tmp_path)]) == 2
    said = "no saved looped model; found a saved model of type llama"
    assert said in capsys.readouterr().err
