"""The loop that drives a service through what a bus may do."""

from __future__ import annotations

import pytest

from streaminfer.bus.protocol import BusError, Fenced, Replaced, Unavailable
from streaminfer.runtime.running import loop
from streaminfer.runtime.running.patience import FIRST_BACKOFF


class Scripted:
    """A service that raises what it is told, step by step, and writes down what is asked of it."""

    ready = True

    def __init__(self, *script: Exception | None) -> None:
        self._script = list(script)
        self.calls: list[str] = []

    def step(self, timeout: float) -> None:
        assert timeout == loop.STEP
        self.calls.append("step")
        error = self._script.pop(0)
        if error is not None:
            raise error

    def reset(self) -> None:
        self.calls.append("reset")

    def close(self) -> None:
        self.calls.append("close")

    def stopping(self) -> bool:
        return not self._script


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(loop.time, "sleep", found.append)
    return found


def test_steps_until_stopping_then_closes(naps: list[float]) -> None:
    service = Scripted(None, Unavailable("x"), None)
    beats: list[bool] = []
    loop.run(lambda: service, service.stopping, beats.append)
    assert service.calls == ["step", "step", "reset", "step", "close"]
    assert beats == [True, False, True]
    assert naps == [FIRST_BACKOFF]


def test_an_unavailable_bus_and_a_fence_start_over_with_growing_pauses(naps: list[float]) -> None:
    errors = [Unavailable("x"), Fenced("x"), *(Unavailable("x") for _ in range(6)), None, Unavailable("x"), None]
    service = Scripted(*errors)
    loop.run(lambda: service, service.stopping)
    assert service.calls == ["step", "reset"] * 8 + ["step", "step", "reset", "step", "close"]
    assert naps == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]), "one good step is no bus that is back"


def test_the_same_failure_is_told_once(naps: list[float], caplog: pytest.LogCaptureFixture) -> None:
    service = Scripted(*(Unavailable(f"try {i}: the disk is full") for i in range(1000)), Fenced("x"), None)
    loop.run(lambda: service, service.stopping)
    assert [record.getMessage() for record in caplog.records] == ["Unavailable: try 0: the disk is full", "Fenced: x"]
    assert naps[-1] == 2.0


@pytest.mark.parametrize("error", [Replaced("newer"), BusError("x"), ValueError("x")])
def test_other_errors_end_it_closed(error: Exception, naps: list[float]) -> None:
    service = Scripted(None, error, None)
    with pytest.raises(type(error)):
        loop.run(lambda: service, service.stopping)
    assert service.calls == ["step", "step", "close"]


def test_a_service_that_cannot_start_yet_is_built_again(naps: list[float]) -> None:
    service = Scripted(None)
    failures = [Unavailable("the lock is held"), Fenced("x")]

    def build() -> Scripted:
        if failures:
            raise failures.pop()
        return service

    loop.run(build, service.stopping)
    assert service.calls == ["step", "close"]
    assert naps == pytest.approx([0.05, 0.1])
