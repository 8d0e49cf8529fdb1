"""What one process saves another one loads through the Auto classes, without code from a folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WRITE = """
import sys, torch
from lt2theory.hf import LoopedLTForCausalLM
from lt2theory.hf.tokenizer import byte_tokenizer
from lt2theory.models import LoopedConfig, LoopedModel
model = LoopedModel(LoopedConfig(vocab_size=258, pattern="gdn,full", width=16, tie_embeddings=True))
wrapped = LoopedLTForCausalLM.from_looped(model, eos_token_id=257, pad_token_id=257)
wrapped.save_pretrained(sys.argv[1])
byte_tokenizer().save_pretrained(sys.argv[1])
print(float(model(torch.arange(7)[None]).double().sum()))
"""
READ = """
import sys
import lt2theory.hf
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=False)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=False)
batch = tokenizer(["To be", "or not to be"], return_tensors="pt", padding=True)
texts = model.generate(**batch, max_new_tokens=4, do_sample=False)
assert texts.shape == (2, batch["input_ids"].shape[1] + 4), texts.shape
print(float(model(torch.arange(7)[None]).logits.double().sum()))
"""


def run(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.mark.slow
def test_a_saved_model_is_loaded_by_a_clean_process(tmp_path: Path) -> None:
    assert run(WRITE, tmp_path) == run(READ, tmp_path)
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    assert not list(tmp_path.glob("*.py"))
