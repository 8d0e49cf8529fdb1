"""The teacher's likeliest tokens on the disk, so that arms on the same text run the teacher once.

Windows are a function of seed and step, so what a teacher says at a place of a run can be found
again by the place. A file holds what one process read at once; it is there whole or not at all, and
whatever is missing is made and kept. What is used is always what the disk gives back, also where it
was made just now: a resumed run sees the same numbers.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from lt2theory.linearize.topk import TopK
from lt2theory.runs import write_bytes
from lt2theory.runs.prepare import make_folder
from lt2theory.training.lm.objective import Place


class TopKStore:
    """What a teacher says at the places of runs that read the same windows.

    Ids are kept in four bytes and logarithms in two (float16): six bytes a token and alternative.

    Args:
        folder: Where the files are; made if it is missing. Only runs of one teacher, text, seed,
            batch size, length, precision, temperature and number of tokens may share it.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder

    def at(self, place: Place, rows: int, make: Callable[[], TopK]) -> TopK:
        """What the teacher says about some windows.

        Args:
            place: Where they stand.
            rows: How many they are.
            make: Asks the teacher; called where nothing is kept.

        Returns:
            Its likeliest tokens, on the CPU or where `make` put them; logarithms in float16.

        Raises:
            ValueError: A file is damaged.
            DiskFullError: The disk is full.
        """
        path = self.folder / f"{place.step:08d}-{place.first_row:05d}-{rows}.safetensors"
        if path.is_file():
            return _read(path)
        made = rounded(make())
        tensors = {"ids": made.ids, "log_p": made.log_p}
        if made.log_rest is not None:
            tensors["log_rest"] = made.log_rest
        write_bytes(path, save({name: x.contiguous().cpu() for name, x in tensors.items()}))
        return made


def rounded(told: TopK) -> TopK:
    """As the disk gives it back.

    Args:
        told: What a teacher said.

    Returns:
        The same with ids in int32 and logarithms in float16.
    """
    rest = None if told.log_rest is None else told.log_rest.half()
    return TopK(told.ids.int(), told.log_p.half(), rest)


def _read(path: Path) -> TopK:
    try:
        tensors = load(path.read_bytes())
        return TopK(tensors["ids"], tensors["log_p"], tensors.get("log_rest"))
    except (OSError, KeyError, SafetensorError) as error:
        raise ValueError(f"{path} is damaged; delete it to have it made again ({error})") from error


def part_of(told: TopK, part: slice, like: torch.Tensor) -> TopK:
    """Some of the tokens, for a comparison.

    Args:
        told: What a teacher said about all, or what `TopKStore` gave.
        part: Which.
        like: Logits that they are compared with.

    Returns:
        The same on the device and in the dtype of the logits.
    """
    device, dtype = like.device, like.dtype
    rest = None if told.log_rest is None else told.log_rest[part].to(device, dtype)
    return TopK(told.ids[part].to(device).long(), told.log_p[part].to(device, dtype), rest)
