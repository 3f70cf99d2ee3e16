import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from repro.stopping import Stopped, check, stoppable, stopped

LIMIT = 30.0


def is_stopped() -> bool:
    try:
        check()
    except Stopped:
        return True
    return False


def is_stopped_in_a_thread() -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(is_stopped).result(LIMIT)


def test_nothing_is_stopped_unless_it_was_asked_for() -> None:
    assert not is_stopped()
    assert not is_stopped_in_a_thread()


def test_while_it_lasts_every_thread_is_stopped_and_none_after_it() -> None:
    with stopped():
        assert is_stopped()
        assert is_stopped_in_a_thread()
    assert not is_stopped()
    assert not is_stopped_in_a_thread()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Stopped])
def test_it_is_over_also_when_the_body_raised(error: type[BaseException]) -> None:
    with pytest.raises(error), stopped():
        raise error
    assert not is_stopped()
    assert not is_stopped_in_a_thread()


def test_it_can_be_asked_for_again() -> None:
    for _ in range(3):
        with stopped():
            assert is_stopped_in_a_thread()
        assert not is_stopped_in_a_thread()


def test_asking_in_a_thread_stops_the_main_one() -> None:
    asked, seen = threading.Event(), threading.Event()

    def ask() -> None:
        with stopped():
            asked.set()
            assert seen.wait(LIMIT)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(ask)
        assert asked.wait(LIMIT)
        assert is_stopped()
        seen.set()
        future.result(LIMIT)
    assert not is_stopped()


def test_threads_that_wait_already_are_ended() -> None:
    waiting = threading.Barrier(4)
    pause = threading.Event()

    def wait() -> str:
        waiting.wait(LIMIT)
        try:
            while not pause.wait(0.005):
                check()
        except Stopped:
            return "stopped"
        return "never stopped"

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(wait) for _ in range(3)]
        waiting.wait(LIMIT)
        try:
            with stopped():
                assert [future.result(LIMIT) for future in futures] == ["stopped"] * 3
        finally:
            pause.set()


def test_what_one_thread_does_is_stopped_without_the_others() -> None:
    unwanted = threading.Event()
    with stoppable(unwanted):
        assert not is_stopped()
        unwanted.set()
        assert is_stopped()
        assert not is_stopped_in_a_thread()
    assert not is_stopped()


def test_whoever_does_not_want_the_whole_does_not_want_its_parts() -> None:
    outer, inner = threading.Event(), threading.Event()
    with stoppable(outer):
        with stoppable(inner):
            outer.set()
            assert is_stopped()
        outer.clear()
        inner.set()
        assert not is_stopped()


@pytest.mark.parametrize("error", [ValueError, Stopped])
def test_a_stop_is_forgotten_with_what_it_was_for(error: type[BaseException]) -> None:
    unwanted = threading.Event()
    unwanted.set()
    with pytest.raises(error), stoppable(unwanted):
        raise error
    assert not is_stopped()


def test_what_catches_every_error_does_not_catch_it() -> None:
    """As with KeyboardInterrupt: a thread that goes on after any error must end all the same."""
    assert issubclass(Stopped, BaseException)
    assert not issubclass(Stopped, Exception)
