"""The paths of a service, and the addresses it may have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from prometheus_client import CollectorRegistry, Counter

from streaminfer.bus.environment import SettingsError
from streaminfer.runtime.running import alive
from streaminfer.runtime.running import health as module
from streaminfer.runtime.running.health import TOKEN_VARIABLE, AddressError, Health, parse_address, serve
from tests.runtime.rig import Rig, poisson

REMOTE = (
    "--http: {} can be reached from other machines; set STREAMINFER_HTTP_TOKEN to a token that readers must send as "
    "«Authorization: Bearer …», or bind to 127.0.0.1"
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("127.9.9.9:0", "127.9.9.9", 0),
        ("localhost:65535", "localhost", 65535),
        ("[::1]:80", "::1", 80),
    ],
)
def test_loopback_needs_no_token(text: str, host: str, port: int) -> None:
    assert parse_address(text, {}) == (host, port, None)
    assert parse_address(text, {TOKEN_VARIABLE: "t"}) == (host, port, "t")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])  # noqa: S104 (what must be refused)
def test_elsewhere_a_token_is_needed(host: str) -> None:
    text = f"[{host}]:80" if ":" in host else f"{host}:80"
    for environ in ({}, {TOKEN_VARIABLE: ""}):
        with pytest.raises(AddressError) as caught:
            parse_address(text, environ)
        assert str(caught.value) == REMOTE.format(host)
    assert parse_address(text, {TOKEN_VARIABLE: "secret"}) == (host, 80, "secret")


@pytest.mark.parametrize("text", ["", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                                  "127.0.0.1:-1", "127.0.0.1:8_0"])  # fmt: skip
def test_other_texts_are_no_address(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text, {})
    assert str(caught.value) == f"--http: must be HOST:PORT, such as 127.0.0.1:8080 (got {text!r})"


class Answers:
    """A served Health and what its paths say."""

    def __init__(self, token: str | None, host: str = "127.0.0.1") -> None:
        registry = CollectorRegistry()
        Counter("streaminfer_test", "A count", registry=registry).inc(3)
        self.health = Health(registry)
        self.health.beat(True)
        self._host = host
        self.context = serve(self.health, host, 0, token)

    def get(self, path: str, authorization: bytes | None = None) -> tuple[int, str, str]:
        connection = HTTPConnection(self._host, self.port, timeout=5)
        headers = {} if authorization is None else {"Authorization": authorization}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.headers["Content-Type"]
        connection.close()
        return found

    @property
    def port(self) -> int:
        return self.server.server_port

    def __enter__(self) -> Answers:
        self.server = self.context.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.__exit__(None, None, None)


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers(None) as found:
        yield found


def test_port_zero_is_any_free_port(answers: Answers) -> None:
    assert 0 < answers.port <= 65535


def test_paths(answers: Answers) -> None:
    assert answers.get("/healthz")[:2] == (200, "ok\n")
    assert answers.get("/readyz?x=1")[:2] == (200, "ready\n")
    status, text, kind = answers.get("/metrics")
    assert status == 200
    assert "streaminfer_test_total 3.0" in text
    assert kind.startswith("text/plain")
    assert answers.get("/")[:2] == (404, "known paths: /healthz /readyz /metrics\n")


def test_not_ready(answers: Answers) -> None:
    answers.health.beat(False)
    assert answers.get("/readyz")[:2] == (503, "not ready\n")
    assert answers.get("/healthz")[0] == 200


def test_a_service_that_makes_no_step_is_neither_healthy_nor_ready(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    answers.health.beat(True)
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 59.9)
    assert answers.health.healthy
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 60.1)
    assert not answers.health.healthy
    answers.health.beat(True)
    assert answers.health.healthy


def test_stuck_answers(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers.health, "_limit", -1.0)
    assert answers.get("/healthz")[:2] == (503, "no step for too long\n")
    assert answers.get("/readyz")[0] == 503


@pytest.mark.parametrize("token", ["secret", "geheimnisvoll-ü"])
def test_metrics_behind_a_token(token: str) -> None:
    with Answers(token) as answers:
        for wrong in (None, b"", b"Bearer", b"Bearer wrong", token.encode(), b"Basic " + token.encode(), b"\xff"):
            status, text, _ = answers.get("/metrics", wrong)
            assert (status, text) == (401, "send the token as Authorization: Bearer ...\n")
        status, text, _ = answers.get("/metrics", b"Bearer " + token.encode())
        assert status == 200
        assert "streaminfer_test_total 3.0" in text
        assert answers.get("/healthz")[0] == 200


def test_loopback_of_version_six() -> None:
    with Answers(None, "::1") as answers:
        assert answers.get("/healthz")[0] == 200


def test_after_the_end_nobody_answers() -> None:
    with Answers(None) as answers:
        port = answers.port
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection("127.0.0.1", port, timeout=1).request("GET", "/healthz")


def test_a_long_step_that_goes_on_is_not_taken_for_a_stuck_one(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    answers.health.beat(True)
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 59.0)
    with alive.listening(answers.health.lives):
        alive.tell()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 100.0)
    assert answers.health.readyz()[0] == 200
    alive.tell()  # nobody listens any more
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 119.5)
    assert not answers.health.healthy


def test_services_tell_of_every_piece_of_their_work() -> None:
    rig, told = Rig(poisson()), list[float]()
    worker, master = rig.worker(), rig.master()
    with alive.listening(lambda: told.append(rig.clock())):
        for _ in range(5):
            rig.send(*range(8))
            rig.run(worker, master)
    assert rig.snapshot().n_events == 40
    assert len(told) >= 2 * 5, "as often something was learned, and as often it was folded"


@pytest.mark.parametrize(("text", "limit"), [(None, 60.0), ("", 60.0), ("5", 5.0), ("300", 300.0), ("86400", 86400.0)])
def test_the_limit_is_a_setting(text: str | None, limit: float) -> None:
    assert module.limit_of({} if text is None else {"STREAMINFER_UNHEALTHY_AFTER": text}) == limit


@pytest.mark.parametrize("text", ["4", "86401", "-5", "1e3", "soon", "60.5"])
def test_a_limit_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=rf"STREAMINFER_UNHEALTHY_AFTER must be .* \(got '{text}'\)"):
        module.limit_of({"STREAMINFER_UNHEALTHY_AFTER": text})
