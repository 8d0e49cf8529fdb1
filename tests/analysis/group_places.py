"""Heads made by hand whose way of tracking a group is known."""

import numpy as np
import torch

from lt2theory.analysis import Place, compose_factors, group_words
from proofs_checks.express_words import token_factors
from tasks import create
from tasks.groups import group


def words_of(name, *, size=256, length=16, clock=True):
    batch = create("group_word", group=name).batch(
        stage=length, split="test", seed=0, index=0, size=size
    )
    return batch.inputs, group_words(batch.inputs, group(name), clock=clock)


def images_of(name):
    """The points that every element sends 0, 1, ... to."""
    names = group(name).names
    degree = int(name[1:])
    found = []
    for text in names:
        images = list(range(degree))
        for cycle in text.strip("()").split(")("):
            points = [int(point) - 1 for point in cycle.split()]
            for here, there in zip(points, points[1:] + points[:1], strict=True):
                images[here] = there
        found.append(images)
    return found


def matrices(name):
    """Permutation matrices; element i, then j, is the product (j) (i)."""
    return np.stack([np.eye(len(images))[images].T for images in images_of(name)])


def plane(name="S3"):
    """The standard representation of S_3 on the plane."""
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:]
    return basis @ matrices(name) @ basis.T


def place(words, transition, states):
    """A head with these transitions `[n k k]`, and this state `[g k v]` for every product."""
    return Place(0, 0, 0, states[words.before], states[words.after], transition)


def exact(tokens, words):
    """E3: one transposition a loop makes every token its permutation matrix."""
    name = words.group.name
    factors = token_factors(
        images_of(name), torch.from_numpy(tokens[:, words.first :]), loops=int(name[1:]) - 1
    )
    operator = compose_factors(factors.k[..., 0, :], factors.beta[..., 0])
    states = np.repeat(matrices(name), words.clock, axis=0)
    return place(words, operator.to_dense().flatten(0, 1).numpy(), states)


def cascade(words):
    """g = s^b r^a keeps a alone; r^d turns it by d or -d, as the sign of the prefix says."""
    s3 = group("S3")
    turn, swap = s3.names.index("(1 2 3)"), s3.names.index("(1 2)")
    angle, power = np.zeros(6), 0
    for a in range(3):
        angle[power] = angle[s3.cayley[power, swap]] = 2 * np.pi * a / 3
        power = int(s3.cayley[power, turn])
    by = angle[words.after // words.clock] - angle[words.before // words.clock]
    rows = np.array([[np.cos(by), -np.sin(by)], [np.sin(by), np.cos(by)]])
    code = np.repeat(np.stack([np.cos(angle), np.sin(angle)], 1), words.clock, axis=0)
    return place(words, rows.transpose(2, 0, 1), code[:, :, None])


def one_reflection(words):
    """L6: F^c g F^c' is one reflection a token, where c flips at every even token."""
    rho, sign = plane(), np.array([1, -1, -1, 1, 1, -1])
    mirror = np.stack([np.eye(2), rho[1]])

    def flips(state):
        return ((sign[state // 2] < 0) ^ (state % 2 == 1)).astype(int)

    transition = mirror[flips(words.after)] @ rho[words.token] @ mirror[flips(words.before)]
    assert np.allclose(np.linalg.det(transition), -1)
    every = np.arange(12)
    return place(words, transition, mirror[flips(every)] @ rho[every // 2])


def swapped_labels(words):
    """A one-hot code whose transition swaps the old product with the new one."""
    one_hot = np.eye(6)
    gap = one_hot[words.before // words.clock] - one_hot[words.after // words.clock]
    transition = np.eye(6) - gap[:, :, None] * gap[:, None, :]
    return place(words, transition, np.repeat(one_hot, words.clock, axis=0)[:, :, None])


def rewritten(words):
    """Every transition empties the state; the code is written afresh."""
    states = np.random.default_rng(0).standard_normal((words.num_states, 3, 2))
    states[1::2] = states[::2]
    return place(words, np.zeros((len(words.token), 3, 3)), states)


def noise(words, width=4):
    """States and transitions that know nothing."""
    rng = np.random.default_rng(1)
    count = len(words.token)
    states = rng.standard_normal((count, width, width))
    return Place(0, 0, 0, states, states, rng.standard_normal((count, width, width)))
