"""Needles in haystacks of English words, as a local task of lm-evaluation-harness."""

import json
from collections.abc import Sequence
from pathlib import Path

from lt2theory.runs.atomic import write_text
from lt2theory.training.text.needles import needle_texts
from tasks.needle import Needle

GROUP = "lt2_needle"

_YAML = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: " "
generation_kwargs:
  until: [".", "\\n"]
  do_sample: false
  max_gen_toks: {most}
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_punctuation: true
metadata:
  version: 1.0
"""


def write_needle_tasks(
    folder: Path,
    *,
    stages: Sequence[int] = (64, 256, 1024),
    size: int = 100,
    seed: int = 0,
    task: Needle | None = None,
) -> tuple[str, ...]:
    """Write tasks for `lm_eval --include_path FOLDER`, one a length, and their group `lt2_needle`.

    Args:
        folder: Where; made if it is missing. The tasks name their data by its absolute path.
        stages: Lengths, in words.
        size: Texts of each.
        seed: Seed of the texts.
        task: The needles; None is one needle with a word for a key and a number for a value.

    Returns:
        The names of the tasks.

    Raises:
        ValueError: `stages` is empty, or the task has no such batches.
    """
    if not stages:
        raise ValueError("stages: () is not allowed (at least one length)")
    own = Needle() if task is None else task
    folder.mkdir(parents=True, exist_ok=True)
    names = tuple(f"{GROUP}_{stage}" for stage in stages)
    for name, stage in zip(names, stages, strict=True):
        texts = list(needle_texts(own, stage=stage, size=size, seed=seed))
        data = folder.resolve() / f"{name}.jsonl"
        write_text(data, "".join(json.dumps(text) + "\n" for text in texts))
        # A tokenizer may need a token a byte.
        most = 2 + max(len(text["answer"]) for text in texts)
        path = json.dumps(str(data))
        write_text(folder / f"{name}.yaml", _YAML.format(name=name, data=path, most=most))
    listed = ", ".join(names)
    write_text(
        folder / f"{GROUP}.yaml",
        f"group: {GROUP}\ntask: [{listed}]\n"
        "aggregate_metric_list:\n  - metric: exact_match\n    weight_by_size: true\n",
    )
    return names
