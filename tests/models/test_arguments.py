"""Arguments of another kind are refused by name, by the library as its users have it.

It runs in a process of its own, since the tests' type checker would refuse them first.
"""

import json
import os
import subprocess
import sys

REFUSED = {
    "generate(model, tokens, 2.5)": "max_new_tokens: 2.5 is not allowed (must be a whole number)",
    "generate(model, tokens, True)": "max_new_tokens: True is not allowed",
    "generate(model, tokens, None)": "max_new_tokens: None is not allowed",
    "generate(model, [[1, 2]], 2)": "prompt: got a list; must be a tensor of integers",
    "generate(model, tokens, 2, lengths=[1, 9])": "lengths: got a list; must be a tensor",
    "generate(model, tokens, 2, stop_ids=[1.5])": "stop_ids: 1.5 is not allowed",
    "Sampling(torch.Generator(), top_k=1.5)": "top_k: 1.5 is not allowed",
    "model([[1, 2]])": "tokens: got a list; must be a tensor",
    "model(tokens, last_logits=1.5)": "last_logits: 1.5 is not allowed",
    "model(tokens, last_logits='1')": "last_logits: '1' is not allowed",
    "model(tokens, last_logits=True)": "last_logits: True is not allowed",
    "model(tokens, lengths=[1, 9])": "lengths: got a list; must be a tensor",
    "model(tokens, documents=[[0] * 9] * 2)": "documents: got a list; must be a tensor",
    "model.new_cache(2, snapshot_every=1.5)": "snapshot_every: 1.5 is not allowed",
    "model.new_cache(2.5)": "batch_size: 2.5 is not allowed",
    "cache.repeat(1.5)": "times: 1.5 is not allowed",
    "cache.reorder([0, 1])": "rows: got a list; must be a tensor",
    "cache.crop(2.5)": "length: 2.5 is not allowed",
    "cache.roll_back(1.0)": "tokens: 1.0 is not allowed",
    "Decoder(model, cache, capacity=20.5)": "capacity: 20.5 is not allowed",
    "decoder.step([1, 2])": "tokens: got a list; must be a tensor",
    "decoder.pretend(10.5)": "length: 10.5 is not allowed",
}

SCRIPT = """
import json, sys
import torch
from lt2theory.models import Decoder, LoopedModel, Sampling, generate, presets

model = LoopedModel(presets()["toy-gdn"])
tokens = torch.zeros(2, 9, dtype=torch.int64)
cache = model.new_cache(2)
model(tokens, cache)
decoder = Decoder(model, cache, capacity=20)
said = {}
for call in json.loads(sys.argv[1]):
    try:
        eval(call)
        said[call] = "nothing"
    except Exception as error:
        said[call] = f"{type(error).__name__}: {error}"
said["length"] = cache.length
print(json.dumps(said))
"""


def test_arguments_of_another_kind_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(list(REFUSED))],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    said = json.loads(done.stdout)
    assert said.pop("length") == 9
    wrong = {call: said[call] for call in REFUSED if REFUSED[call] not in said[call]}
    assert not wrong
    assert all(text.startswith("ValueError: ") for text in said.values())
