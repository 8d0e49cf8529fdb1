import torch

from lt2theory.bench.turns import both_ways, take_turns


def test_runs_take_turns_and_the_first_turn_is_not_timed():
    ran: list[str] = []
    runs = {name: lambda name=name: ran.append(name) for name in ("a", "b")}
    timed = take_turns(runs, 3)
    assert ran == ["a", "b"] * 4
    assert all(0 <= fastest <= median for fastest, median in timed.values())


def test_a_run_goes_forward_and_backward():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = both_ways(lambda: x**2, [x])()
    assert gradient.tolist() == [2.0, 4.0]
