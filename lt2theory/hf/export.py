"""From a run of `lt2 train` to a folder that `transformers` and `lm_eval` read."""

from pathlib import Path

from transformers import AutoTokenizer

from lt2theory.hf.modeling import LoopedLTForCausalLM
from lt2theory.hf.tokenizer import byte_tokenizer
from lt2theory.training.lm import load_lm
from lt2theory.training.lm.tokens import run_tokenizer
from lt2theory.training.text.tokenizer import BYTES


def export_run(run: Path, folder: Path) -> None:
    """Save the model that a run has trained so far, with its tokenizer.

    Kernels of a GPU that the run names are left to 'auto', so that any device can read the folder.

    Args:
        run: Folder of a run of `lt2 train`, finished or not.
        folder: Where to; a README.md that is there stays as it is.

    Raises:
        ValueError: The folder holds no such run, or its tokenizer is gone or another one.
    """
    model, _ = load_lm(run)
    tokenizer = run_tokenizer(run)
    begin, end = tokenizer.begin, tokenizer.end
    saved = LoopedLTForCausalLM.from_looped(
        model, bos_token_id=begin, eos_token_id=end, pad_token_id=end
    )
    saved.save_pretrained(folder)
    if tokenizer.name == BYTES:
        byte_tokenizer().save_pretrained(folder)
    else:
        AutoTokenizer.from_pretrained(tokenizer.name, local_files_only=True).save_pretrained(folder)
