"""Terms of the reports, each explained in a sentence to somebody who has not seen the code."""

from collections.abc import Mapping

from tasks.names import unknown_name

GLOSSARY: Mapping[str, str] = {
    "arm": "One setting of the experiment. Runs of one arm differ in the seed alone.",
    "seed": "Start of the random numbers that draw the initial weights and the training data.",
    "loops (T)": "How many times the same stack of layers is applied, one after the other.",
    "rescan": "Loop-state semantics in which every loop scans the sequence with a fresh state.",
    "accumulate": (
        "Loop-state semantics in which, at every token, a loop's state takes the updates of all "
        "loops so far, so that one token can change one state T times."
    ),
    "stage": (
        "A difficulty of the task. Training moves to the next stage when the pass mark is met on "
        "fresh instances and confirmed once on others."
    ),
    "scored accuracy": (
        "Share of right answers at the positions that the task is judged by; supervision at other "
        "positions does not enter."
    ),
    "floor": (
        "The accuracy of a rule that lacks the skill in question, such as guessing or ignoring a "
        "part of the input. An accuracy says something only where it exceeds every floor."
    ),
    "floor's name": (
        "Uniform: guessing among the answers. Majority: always the commonest answer at that "
        "position. Memory majority: the commonest bit of the memory. Never named: the pointer's "
        "first bit, right for certain where no swap has named it. Others say what they ignore."
    ),
    "claim id": (
        "A letter and a number such as E8 or W1: an entry of docs/theory.md, with statement, "
        "conditions and evidence; `lt2 verify --only E8` checks it again."
    ),
    "beta": (
        "How strongly a delta-rule layer erases what its state holds along the present key: 0 "
        "nothing, 1 all of it, 2 turns the sign round."
    ),
    "bits per byte": (
        "Bits that a model needs for a text, by its own predictions, over the bytes of the text: "
        "what a compressor built on it would spend. Tokenizers compare."
    ),
    "xz": (
        "A compressor (`xz -9`) that finds repetitions and learns nothing else; after the training "
        "text it may also refer to the last 64 MiB of that."
    ),
    "gate baseline": (
        "The product of the decays alone. Ranks are those of what erasure adds to it, since "
        "against the identity decays would count too."
    ),
    "orthogonal keys": (
        "The effective rank that the same strengths would give if the loops' keys were orthogonal."
    ),
    "splits": (
        "Instances are divided for good by their content: training, evaluation (it decides about "
        "stages) and test (read once, at the end)."
    ),
    "interval": (
        "In brackets behind an estimate, with 95 % coverage unless another is named. For one run "
        "it says how well its accuracy is known, for an arm what another seed would do."
    ),
    "reach": "How many tokens, itself included, can influence an output of a windowed model.",
    "effective rank": (
        "How many directions of the state an update really uses, counting weak ones by their "
        "strength; at most the number of loops T for a looped delta rule."
    ),
}


def terms(*names: str) -> dict[str, str]:
    """Some of the terms, in the order asked for.

    Args:
        *names: Keys of `GLOSSARY`.

    Returns:
        Term and explanation.

    Raises:
        ValueError: A term is not explained here.
    """
    for name in names:
        if name not in GLOSSARY:
            raise ValueError(unknown_name("term", name, GLOSSARY))
    return {term: GLOSSARY[term] for term in names}
