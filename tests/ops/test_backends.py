import subprocess
import sys

import pytest
import torch

from lt2theory.ops import ATTENTIONS, RECURRENCES, AttentionProblem, explain_attention
from lt2theory.ops import explain_recurrence as explain
from lt2theory.ops.registry import Backend, Registry


def test_names():
    assert RECURRENCES.names == ("auto", "chunked", "fla", "reference", "triton")
    assert ATTENTIONS.names == ("auto", "chunked", "fla", "reference", "triton")


def test_auto_takes_chunks_for_sequences_and_the_loop_for_a_step(make_factors):
    long = explain(make_factors(length=64))
    assert long.backend.name == "chunked"
    assert str(long).startswith("chunked: by chunks")
    step = explain(make_factors(length=1))
    assert step.backend.name == "reference"
    assert "not chunked: 1 factor steps are fewer than a chunk is worth" in str(step)


def test_a_name_is_taken_at_its_word(make_factors):
    choice = explain(make_factors(length=1), backend="chunked")
    assert str(choice) == "chunked: asked for by name"


def test_unknown_name(make_factors):
    with pytest.raises(ValueError, match=r"is not allowed \(choose from auto, .*, fla, triton"):
        explain(make_factors(length=1), backend="cuda")


def test_a_backend_that_an_op_lacks_is_answered_as_auto_is():
    registry = Registry("division", (Backend(name="any", load=lambda: str, merit="always"),))
    assert str(registry.choose(3, "fla")) == "any: always; not fla: division has no such backend"


def test_a_backend_that_is_lacking_for_a_workload_is_answered_as_auto_is():
    entry = Backend(
        name="triton",
        load=lambda: str,
        merit="halves",
        lacks=lambda n: "it halves even numbers alone" if n % 2 else None,
        declines=lambda n: "small" if n < 3 else None,
    )
    registry = Registry("division", (entry, Backend("chunked", lambda: str, "always")))
    said = "chunked: always; not triton: it halves even numbers alone"
    assert str(registry.choose(5, "triton")) == str(registry.choose(5)) == said
    assert registry.choose(2, "triton").backend is entry
    assert registry.choose(2).backend.name == "chunked"
    assert registry.names_for(5) == ("auto", "chunked")
    assert registry.names_for(2) == registry.names == ("auto", "chunked", "triton")


def test_attention_choice():
    x = torch.zeros(1, 3, 2, 4)
    problem = AttentionProblem(x, x, x, None, 0.5, None, None)
    assert explain_attention(problem).backend.name == "chunked"


def test_a_new_backend_is_one_entry():
    entry = Backend(
        name="even",
        load=lambda: str,
        merit="halves",
        refuses=lambda n: "odd" if n % 2 else None,
    )
    fallback = Backend(name="any", load=lambda: str, merit="always")
    registry = Registry("division", (entry, fallback))
    assert registry.choose(4).backend is entry
    assert str(registry.choose(3)) == "any: always; not even: odd"
    with pytest.raises(ValueError, match="backend 'even' cannot run this division: odd"):
        registry.choose(3, "even")
    with pytest.raises(ValueError, match="no backend can run this division"):
        Registry("division", (entry,)).choose(3)


def test_what_is_found_by_running_is_asked_last():
    asked = []

    def fails(n):
        asked.append(n)
        return "measured wrong" if n == 4 else None

    entry = Backend(
        name="even",
        load=lambda: str,
        merit="halves",
        refuses=lambda n: "odd" if n % 2 else None,
        declines=lambda n: "small" if n < 3 else None,
        fails=fails,
    )
    registry = Registry("division", (entry, Backend("any", lambda: str, "always")))
    assert [registry.choose(n).backend.name for n in (1, 2)] == ["any", "any"]
    assert asked == []
    assert str(registry.choose(4)) == "any: always; not even: measured wrong"
    with pytest.raises(ValueError, match="backend 'even' cannot run this division: measured wrong"):
        registry.choose(4, "even")
    assert registry.choose(6).backend is entry


def test_ops_import_nothing_heavy():
    script = (
        "import sys, lt2theory.ops; "
        "print(sorted({'fla', 'triton', 'transformers', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
