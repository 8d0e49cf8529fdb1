import os
import signal
import threading

import pytest

from lt2theory.training import Interrupted
from lt2theory.training.signals import (
    SIGNALS,
    StopRequest,
    stop_requests,
    termination_interrupts,
)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_is_a_request_and_the_second_acts(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in SIGNALS}
    with stop_requests() as stop:
        stop.check()
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(Interrupted, match="the same command continues the run"):
            stop.check()
        assert {each: signal.getsignal(each) for each in SIGNALS} == before
    assert {each: signal.getsignal(each) for each in SIGNALS} == before


def test_handlers_are_restored_without_a_signal() -> None:
    before = {each: signal.getsignal(each) for each in SIGNALS}
    with stop_requests() as stop:
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    assert not stop.requested
    assert {each: signal.getsignal(each) for each in SIGNALS} == before


def test_other_threads_are_left_alone() -> None:
    found: list[StopRequest] = []

    def work() -> None:
        with stop_requests() as stop, termination_interrupts():
            found.append(stop)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [stop.requested for stop in found] == [False]


def test_termination_becomes_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="terminated"), termination_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
