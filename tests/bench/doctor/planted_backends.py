"""Backends of the recurrence that are broken on purpose, for the doctor to find.

Importing this module registers them, in this process. All but `wrong_gradient` are right at even
lengths.
"""

import os
import signal
import time
from dataclasses import replace

import torch

from lt2theory.ops.backends import RECURRENCES
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.registry import Backend


class Scaled(torch.autograd.Function):
    """The identity, with a gradient that is 1.25 times too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.25 * gradient


def wrong_gradient(factors, state):
    return reference_recurrence(replace(factors, beta=Scaled.apply(factors.beta)), state)


def at_odd_lengths(broken):
    def run(factors, state):
        output, after = reference_recurrence(factors, state)
        return (broken(output) if output.shape[1] % 2 else output), after

    return run


def doubled_last_token(output):
    return torch.cat([output[:, :-1], 2 * output[:, -1:]], 1)


def raises(output):
    raise RuntimeError("CUDA error: planted\nsecond line")


def dies(output):
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(output):
    time.sleep(600)


def not_a_number(output):
    return output * float("nan")


RUNNERS = {
    "wrong_gradient": wrong_gradient,
    "wrong_at_odd": at_odd_lengths(doubled_last_token),
    "not_a_number": at_odd_lengths(not_a_number),
    "raising": at_odd_lengths(raises),
    "dying": at_odd_lengths(dies),
    "hanging": at_odd_lengths(hangs),
    "refusing": reference_recurrence,
}


def backend(name):
    refuses = (lambda workload: "planted: take another") if name == "refusing" else lambda w: None
    return Backend(name, lambda: RUNNERS[name], "planted", refuses, lambda w: "planted")


# The registry is frozen for everybody else; `chunked` and `reference` stay what `auto` takes.
object.__setattr__(
    RECURRENCES, "backends", (*RECURRENCES.backends, *(backend(name) for name in RUNNERS))
)
