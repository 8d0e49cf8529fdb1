"""Our model in transformers: `save RUN FOLDER`; in a new process `load FOLDER DEVICE JSON`."""

import importlib.metadata
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from lt2theory.hf.export import export_run
from lt2theory.models import generate

TEXTS = (
    "We hold these truths",
    "The",
    "When in the Course of human events, it becomes necessary",
)
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 20},
    "beams": {"num_beams": 3, "do_sample": False},
}
PACKAGES = ("torch", "transformers", "huggingface_hub", "tokenizers", "safetensors")
Row = dict[str, Any]


class Loaded:
    """A saved model and its tokenizer, as the Auto classes give them.

    Attributes:
        folder: Where it is saved.
        device: Where it runs.
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        batch: Three texts of unequal lengths, padded on the left.
        new: Tokens that are generated a row.
    """

    def __init__(self, folder: str, device: str) -> None:
        self.folder, self.device = folder, device
        self.model = self.loaded()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.batch = self.encoded(TEXTS)
        self.new = 48 if device == "cuda" else 12

    def loaded(self, **how: Any) -> Any:
        """The model, read anew."""
        model = AutoModelForCausalLM.from_pretrained(self.folder, trust_remote_code=False, **how)
        return model.to(self.device).eval()

    def encoded(self, texts: tuple[str, ...]) -> dict[str, torch.Tensor]:
        """What the model takes for some texts."""
        found = self.tokenizer(list(texts), return_tensors="pt", padding=True).to(self.device)
        return {name: x for name, x in found.items() if name != "token_type_ids"}

    def last_logits(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of the last places, in float32."""
        with torch.no_grad():
            return self.model(**batch).logits[:, -1].float()


def auto_classes(own: Loaded) -> Row:
    """Whether they give our class, without code from the folder."""
    config = type(AutoConfig.from_pretrained(own.folder, trust_remote_code=False)).__name__
    count = sum(p.numel() for p in own.model.parameters())
    ok = type(own.model).__name__ == "LoopedLTForCausalLM"
    return {"check": "auto classes", "ok": ok, "config": config, "parameters": count}


def timed(own: Loaded, **how: Any) -> tuple[Any, float]:
    """What `generate` gives, and its seconds."""
    torch.manual_seed(3)
    begun = time.perf_counter()
    got = own.model.generate(
        **own.batch,
        max_new_tokens=own.new,
        min_new_tokens=own.new,
        return_dict_in_generate=True,
        **how,
    )
    if own.device == "cuda":
        torch.cuda.synchronize()
    return got, time.perf_counter() - begun


def cached(own: Loaded, way: str, kind: str | None) -> Row:
    """Texts with a cache beside texts without, where sampled ones may part at a rounding."""
    row: Row = {"check": f"{way}, left padding, cache {kind or 'by itself'}", "ok": False}
    extra = {} if kind is None else {"cache_implementation": kind}
    try:
        found, first = timed(own, **WAYS[way], **extra)
        _, again = timed(own, **WAYS[way], **extra)
        plain, slow = timed(own, **WAYS[way], use_cache=False)
    except Exception as error:  # noqa: BLE001 (a check that fails, and the others go on)
        return row | {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    same = found.sequences == plain.sequences
    cache = found.cache if "cache" in found else found.get("past_key_values")
    return row | {
        "ok": bool(same.all()),
        "share": float(same.float().mean()),
        "fixed_buffers": getattr(cache, "capacity", None),
        "seconds": first,
        "seconds_again": again,
        "recomputed_seconds": slow,
    }


def padded_rows(own: Loaded) -> Row:
    """Logits of padded rows beside those of the same rows alone."""
    whole = own.last_logits(own.batch)
    alone = torch.cat([own.last_logits(own.encoded((text,))) for text in TEXTS])
    largest, size = float((whole - alone).abs().max()), float(whole.abs().max())
    ok = largest < 2e-3 * size
    return {"check": "padded rows beside rows alone", "ok": ok, "largest": largest, "size": size}


def our_greedy(own: Loaded) -> Row:
    """Greedy text beside that of `lt2theory.models.generate`."""
    ids = own.encoded(TEXTS[:1])["input_ids"]
    ours = generate(own.model.model, ids, own.new).tokens
    how = {"max_new_tokens": own.new, "min_new_tokens": own.new, "do_sample": False}
    same = ours == own.model.generate(ids, **how)[:, ids.shape[1] :]
    share = float(same.float().mean())
    return {"check": "greedy beside ours", "ok": bool(same.all()), "share": share}


def in_bfloat16(own: Loaded) -> Row:
    """The model read in bfloat16: how far its logits are, and what stays float32."""
    whole = own.last_logits(own.batch)
    half = own.loaded(dtype=torch.bfloat16)
    kept = {n.split(".")[-1] for n, p in half.named_parameters() if p.dtype == torch.float32}
    shape = list(half.generate(**own.batch, max_new_tokens=own.new, do_sample=False).shape)
    with torch.no_grad():
        largest = float((half(**own.batch).logits[:, -1].float() - whole).abs().max())
    ok = largest < 0.05 * float(whole.abs().max()) + 0.1
    told = {"largest": largest, "kept_float32": sorted(kept), "shape": shape}
    return {"check": "bfloat16", "ok": ok, **told}


def training_step(own: Loaded) -> Row:
    """A step with activation checkpointing; the last check, as it leaves gradients behind."""
    own.model.train()
    own.model.activation_checkpointing_enable()
    loss = own.model(**own.batch, labels=own.batch["input_ids"]).loss
    loss.backward()
    ok = bool(torch.isfinite(loss))
    return {"check": "a step with checkpointing", "ok": ok, "loss": float(loss.detach())}


def checks(own: Loaded) -> Iterator[Row]:
    """All of them, as they are done."""
    yield auto_classes(own)
    for way in WAYS:
        for kind in (None, "dynamic") if way != "beams" else ("dynamic",):
            yield cached(own, way, kind)
    yield from (check(own) for check in (padded_rows, our_greedy, in_bfloat16, training_step))


def load(folder: str, device: str, out: str) -> int:
    """Do all checks, and say whether all went well."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    print(versions, flush=True)
    rows: list[Row] = []
    for row in checks(Loaded(folder, device)):
        rows.append(row)
        print(row, flush=True)
        Path(out).write_text(json.dumps({"versions": versions, "rows": rows}, indent=1))
    print("TABLE")
    for row in rows:
        mark = "ok  " if row["ok"] else "FAIL"
        print(mark, row["check"], row.get("share", ""), row.get("error", ""))
    return 0 if all(row["ok"] for row in rows) else 1


def save(run: str, folder: str) -> int:
    """Write a run as a model of transformers."""
    export_run(Path(run), Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit({"save": save, "load": load}[sys.argv[1]](*sys.argv[2:]))
