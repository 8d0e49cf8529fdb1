"""Needles in haystacks of English words, as a local task of lm-evaluation-harness.

The instances are those of `tasks.needle`, written out as in RULER (arXiv 2404.06654): a needle is a
sentence, filler tokens are words, and the answer follows a question.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from lt2theory.runs.atomic import write_text
from tasks.needle import Needle

GROUP = "lt2_needle"

_WORDS = """
air apple arm bank bell bird boat bone book bread bridge brush cake camp card chair church clock
cloud coat coin corn cup desk door dream dust ear earth farm field fire fish floor flower fork
garden glass gold grass hand hill horse house ice island kite lake lamp leaf map milk moon paper
pond rain river road salt sand ship snow stone tree
"""
_FILLER = _WORDS.split()
"""A word for each of the task's 64 filler tokens."""

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


def needle_texts(
    task: Needle, *, stage: int, size: int, seed: int = 0, index: int = 0
) -> Iterator[dict[str, str]]:
    """Write a batch of the test split in words.

    Args:
        task: How many needles there are, and how keys and values look.
        stage: Words of filler and needles together, as the task counts tokens.
        size: Texts.
        seed: Seed of the batch.
        index: Number of the batch.

    Yields:
        `context`, which ends where the answer begins, and `answer`.

    Raises:
        ValueError: The task has no such batch.
    """
    batch = task.batch(stage=stage, split="test", seed=seed, index=index, size=size)
    names = task.token_names
    for inputs, targets, mask in zip(batch.inputs, batch.targets, batch.mask, strict=True):
        text = [names[token] for token in inputs[~mask]]
        answer = "".join(names[token] for token in targets[mask])
        yield {"context": _in_words(text, int(mask.sum())), "answer": answer}


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


def _in_words(tokens: Sequence[str], value_width: int) -> str:
    """Words for filler, a sentence for each needle, and the question."""
    rest, words = list(tokens), []
    while rest[0] != "QUERY":
        word = rest.pop(0)
        if word != "NEEDLE":
            words.append(_FILLER[int(word[1:])])
            continue
        end = rest.index("IS") + 1 + value_width
        key, value = rest[: end - 1 - value_width], rest[end - value_width : end]
        words.append(f"The magic value of {''.join(key)} is {''.join(value)}.")
        del rest[:end]
    asked = "".join(rest[1:])
    question = f"What is the magic value of {asked}? The magic value of {asked} is"
    return f"{' '.join(words)}\n{question}"
