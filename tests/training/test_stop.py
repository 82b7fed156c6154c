"""Requests to stop: one signal to a single process, and the same signal several times to each of several processes."""

import signal

import pytest

from firth.training.stop import StopRequest


def test_one_of_several_processes_ignores_the_signal_that_comes_again_once_it_has_saved() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with StopRequest(once=True) as stop:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        signal.raise_signal(signal.SIGTERM)  # would end the tests
        signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_second_signal_interrupts_a_single_process_and_the_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_several_processes_without_a_signal_get_their_handlers_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest(once=True):
        pass
    assert signal.getsignal(signal.SIGTERM) is before
