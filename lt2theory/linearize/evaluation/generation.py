"""Quality of generated text: repetition, diversity and loops, beside the teacher's and the text's.

A student whose likelihoods are near its teacher's may still generate far worse (arXiv 2603.26556),
above all by falling into loops.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int64, Integer

from lt2theory.linearize.evaluation.intervals import mean_interval, share_interval
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.models import LoopedModel, Sampling, generate

GRAM = 4
"""Tokens of the grams whose repetition is counted."""


def distinct(tokens: Integer[np.ndarray, " n"], gram: int) -> float:
    """Different runs of so many tokens over all of them (distinct-n, Li et al., 1510.03055).

    Args:
        tokens: A text.
        gram: Tokens of a run, at least 1.

    Returns:
        In (0, 1]; 1 for a text that is shorter than a run.

    Raises:
        ValueError: `gram` is below 1.
    """
    if gram < 1:
        raise ValueError(f"gram: {gram} must be >= 1")
    if len(tokens) < gram:
        return 1.0
    runs = np.lib.stride_tricks.sliding_window_view(tokens, gram)
    return len(np.unique(runs, axis=0)) / len(runs)


def loop_period(tokens: Integer[np.ndarray, " n"], *, repeats: int = 3, least: int = 12) -> int:
    """Whether a text ends by repeating itself, and after how many tokens.

    Args:
        tokens: A text.
        repeats: How often a passage must stand in a row at the end.
        least: Fewest tokens that the repeated passages take together, so that a few equal tokens
            are no loop.

    Returns:
        Length of the shortest such passage; 0 where the text does not end in one.

    Raises:
        ValueError: `repeats` is below 2 or `least` below 1.
    """
    if repeats < 2 or least < 1:
        raise ValueError(f"repeats: {repeats} must be >= 2 and least {least} >= 1")
    n = len(tokens)
    for period in range(1, n // repeats + 1):
        span = max(repeats * period, least)
        if span <= n and np.array_equal(tokens[n - span : n - period], tokens[n - span + period :]):
            return period
    return 0


def prompts_of(pair: Pair, *, prompt: int, new_tokens: int, count: int) -> Int64[np.ndarray, "b t"]:
    """Beginnings of held-out documents with how they go on.

    Args:
        pair: The text.
        prompt: Tokens of a beginning, its mark included.
        new_tokens: Tokens after it.
        count: Most texts.

    Returns:
        `prompt + new_tokens` ids a text: of the first documents that are so long.

    Raises:
        ValueError: There is none.
    """
    stream, found = pair.stream, []
    for row in range(stream.num_documents):
        tokens = stream.document(row)[0]
        if len(tokens) > prompt + new_tokens:  # without the end mark
            found.append(tokens[: prompt + new_tokens].astype(np.int64))
        if len(found) == count:
            break
    if not found:
        raise ValueError(
            f"prompt: {prompt} with new_tokens {new_tokens} is more than any document of split "
            f"{stream.split} has"
        )
    return np.stack(found)


def text_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Generated texts as rows of the table.

    Args:
        pair: The models and the text.
        config: `texts`, `prompt`, `new_tokens` and `seed`.

    Returns:
        For the text itself and for each model, generating greedily and by drawing at temperature
        1: `repetition` (share of runs of four tokens that stood in the text before), `distinct_1`,
        `distinct_2`, `looping` (share of texts that end in a loop). Texts go on after an end mark.
    """
    whole = prompts_of(pair, prompt=config.prompt, new_tokens=config.new_tokens, count=config.texts)
    prompt, original = whole[:, : config.prompt], whole[:, config.prompt :]
    rows = list(_quality("text", "original", original, config.seed))
    for name, model in pair.models():
        own = pair.decoding(model)
        for way in ("greedy", "drawn"):
            new = _continued(pair, own, prompt, config, greedy=way == "greedy")
            rows += _quality(name, way, new, config.seed)
    return rows


def _continued(
    pair: Pair,
    model: LoopedModel,
    prompt: Int64[np.ndarray, "b t"],
    config: EvaluationConfig,
    *,
    greedy: bool,
) -> Int64[np.ndarray, "b n"]:
    generator = torch.Generator(pair.runtime.device).manual_seed(config.seed)
    with pair.runtime.alone():
        new = generate(
            model,
            pair.runtime.tensor(prompt),
            config.new_tokens,
            sampling=None if greedy else Sampling(generator),
        )
    return new.tokens.cpu().numpy()


def _quality(
    model: str, way: str, texts: Int64[np.ndarray, "b n"], seed: int
) -> Iterator[Measured]:
    place = {"part": "text", "model": model, "kind": way, "length": texts.shape[1]}
    numbers = {
        "repetition": [1 - distinct(text, GRAM) for text in texts],
        "distinct_1": [distinct(text, 1) for text in texts],
        "distinct_2": [distinct(text, 2) for text in texts],
    }
    for metric, values in numbers.items():
        yield Measured.of(mean_interval(np.array(values), seed=seed), metric=metric, **place)
    loops = share_interval(np.array([loop_period(text) > 0 for text in texts]))
    yield Measured.of(loops, metric="looping", **place)
