"""Answers that a real registry never gives: each is refused in time, within bounds and without our secrets."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streaminfer import load_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.registry.client import Registry
from streaminfer.runtime.registry.http import Conversation, RegistryError, RegistryUnavailable
from streaminfer.runtime.registry.settings import settings_from
from streaminfer.variational import fold
from streaminfer.wire import snapshots
from streaminfer.wire.avro import Schemas, schema_text
from tests.faults.programs import free_port
from tests.registry.answers import Handler, Reply, serving
from tests.registry.conftest import write_spec

SUBJECT = "p.posterior-value"
SCHEMA = schema_text("posterior")
PREFIX = "STREAMINFER_SCHEMA_REGISTRY_"
SECRET = "s3cret-of-ann"  # noqa: S105 (of nobody)


def _registry(url: str, deadline_s: float = 5.0, **more: str) -> Registry:
    settings = settings_from({PREFIX + "URL": url, **{PREFIX + name: value for name, value in more.items()}})
    assert settings is not None
    return Registry(Conversation(settings, deadline_s))


def _always(status: int, body: Any) -> Reply:
    return lambda handler: handler.send(status, body if isinstance(body, bytes) else json.dumps(body).encode())


def _id(given: Any, schema: Any = SCHEMA) -> Reply:
    """Gives an id for anything, and a schema for any id."""
    return lambda handler: handler.send_json(200, {"id": given} if handler.command == "POST" else {"schema": schema})


def _endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def _other(handler: Handler) -> None:
    handler.send(307, b"", Location="http://127.0.0.1:1/elsewhere")


REFUSED: dict[str, tuple[Reply, str]] = {
    "endless": (_endless, "more than 1048576 bytes"),
    "large": (_always(200, b'{"id": 1}' + b" " * (1 << 20)), "more than 1048576 bytes"),
    "no JSON": (_always(200, b"<html>hello</html>"), "not JSON"),
    "deep JSON": (_always(200, b"[" * 200_000), "not JSON"),
    "no object": (_always(200, [1, 2]), "the id 'None'"),
    "no id": (_always(200, {}), "the id 'None'"),
    "text as id": (_id("7"), "the id '7'"),
    "truth as id": (_id(True), "the id 'True'"),
    "negative id": (_id(-1), "the id '-1'"),
    "id of zero": (_id(0), "the id '0'"),
    "large id": (_id(1 << 31), "the id '2147483648'"),
    "fraction as id": (_id(1.5), "the id '1.5'"),
    "another schema": (_id(7, '"long"'), "another schema"),
    "a schema that is none": (_id(7, {"a": 1}), "another schema"),
    "a deep schema": (_id(7, "[" * 200_000), "another schema"),
    "an id without schema": (_id(7, None), "another schema"),
    "a redirect": (_other, "redirect"),
    "not let in": (_always(401, {"message": SECRET}), "USERNAME"),
    "not allowed": (_always(403, {"message": SECRET}), "TOKEN_FILE"),
    "another path": (_always(404, {"error_code": 0, "message": "no such page"}), "is the path right"),
    "a conflict": (_always(409, {"message": f"no field {SECRET}"}), "status 409"),
    "a bad schema": (_always(422, {"message": "bad"}), "status 422"),
}
TRY_AGAIN: dict[str, Reply] = {
    "an error of its own": _always(500, {"message": "oops"}),
    "a gateway": _always(503, b"<html>"),
    "too many requests": _always(429, {}),
    "cut short": lambda handler: handler.send(200, b"{", Content_Length="100"),
}


@pytest.mark.parametrize(("reply", "text"), REFUSED.values(), ids=list(REFUSED))
def test_refused(reply: Reply, text: str) -> None:
    with serving(reply) as server:
        registry = _registry(server.url, USERNAME="ann", PASSWORD=SECRET)
        with pytest.raises(RegistryError, match=text) as caught:
            registry.find(SUBJECT, SCHEMA)
        assert server.url in str(caught.value)
        assert PREFIX + "URL" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert len(str(caught.value)) < 1500
        assert all(path.startswith(("/subjects/", "/schemas/ids/7")) for _, path, _ in server.seen)


@pytest.mark.parametrize("reply", TRY_AGAIN.values(), ids=list(TRY_AGAIN))
def test_another_try_may_help(reply: Reply) -> None:
    with serving(reply) as server, pytest.raises(RegistryUnavailable, match=server.url):
        _registry(server.url).find(SUBJECT, SCHEMA)


def test_nobody_there() -> None:
    with pytest.raises(RegistryUnavailable, match=r"does not answer.*Refused"):
        _registry(f"http://127.0.0.1:{free_port()}").find(SUBJECT, SCHEMA)


def _trickle(part: str) -> Reply:
    def reply(handler: Handler) -> None:
        if part == "nothing":
            time.sleep(20)
        elif part == "headers":
            for _ in range(400):
                handler.wfile.write(b"H")
                time.sleep(0.05)
        else:
            handler.send_response(200)
            handler.end_headers()
            for _ in range(400):
                handler.wfile.write(b" ")
                time.sleep(0.05)

    return reply


@pytest.mark.parametrize("part", ["nothing", "headers", "body"])
def test_a_slow_answer_is_given_up_in_time(part: str) -> None:
    with serving(_trickle(part)) as server:
        began = time.monotonic()
        with pytest.raises(RegistryUnavailable, match="does not answer"):
            _registry(server.url, deadline_s=0.5).find(SUBJECT, SCHEMA)
        assert time.monotonic() - began < 10, "it waited for the end of an answer of 20 s"


def test_what_is_sent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    with serving(_id(7)) as server:
        assert _registry(server.url, TOKEN_FILE=str(token)).find("a b/c", SCHEMA) == 7
        assert [(method, path) for method, path, _ in server.seen] == [
            ("POST", "/subjects/a%20b%2Fc"),
            ("GET", "/schemas/ids/7"),
        ]
        assert {headers["Authorization"] for _, _, headers in server.seen} == {"Bearer t0ken"}


def test_versions_must_be_a_list_of_numbers() -> None:
    for listed in ({}, "1", ["1"], [True], None):
        reply: Callable[[Handler], None] = _always(200, listed)
        with serving(reply) as server, pytest.raises(RegistryError, match="versions"):
            _registry(server.url).ids_of(SUBJECT, [SCHEMA])


def test_it_must_say_whether_a_schema_is_compatible() -> None:
    with serving(_always(200, {"is_compatible": "yes"})) as server, pytest.raises(RegistryError, match="compatible"):
        _registry(server.url).objection(SUBJECT, SCHEMA)
    with serving(_always(200, {"is_compatible": False, "messages": ["a", "b"]})) as server:
        assert _registry(server.url).objection(SUBJECT, SCHEMA) == "a; b"


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    name = ["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", *curve, *name, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(_id(7), context) as server:
        assert _registry(server.url, CA_FILE=str(certificate)).find(SUBJECT, SCHEMA) == 7
        with pytest.raises(RegistryError, match="CA_FILE"):
            _registry(server.url).find(SUBJECT, SCHEMA)


def test_a_reader_only_gets(bus: EmbeddedBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(handler: Handler) -> None:
        handler.send_json(200, [3] if handler.path.endswith("/versions") else {"id": 9, "schema": SCHEMA})

    with serving(reply) as server:
        monkeypatch.setenv(PREFIX + "URL", server.url)
        found = schemas.look_up(load_spec(write_spec(tmp_path, "p")), bus, ["posterior"])
        assert found.registered == {"posterior": 9}
        assert [(method, path) for method, path, _ in server.seen] == [
            ("GET", f"/subjects/{SUBJECT}/versions"),
            ("GET", f"/subjects/{SUBJECT}/versions/3"),
        ]


def test_a_subscriber_waits_for_the_writers_to_register(
    bus: EmbeddedBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, posterior = load_spec(write_spec(tmp_path, "p")), []

    def reply(handler: Handler) -> None:
        if handler.path.endswith("/versions"):
            posterior.append(1)
            handler.send_json(200, [1] if len(posterior) == 2 else [])
        else:
            handler.send_json(200, {"id": 9, "schema": SCHEMA})
            natural = spec.model.posterior(spec.model.empty()).natural
            about = snapshots.About("p", "gaussian", "normal_inverse_wishart", "svb", "exact")
            first = replace(fold.start(spec.model, spec.fingerprint), version=1)
            records = snapshots.encode(first, natural, about, 1 << 20, Schemas({"posterior": 9}))
            with EmbeddedBus(tmp_path / "bus") as writer:
                writer.publish([Output("p.posterior", data, key, 0) for key, data in records])

    names.create_topics(spec, bus)
    with serving(reply) as server:
        monkeypatch.setenv(PREFIX + "URL", server.url)
        found = next(Connection(bus).subscribe(spec, timeout=20))
    assert found.version == 1
    assert len(posterior) == 2


def test_a_schema_that_is_refused_after_all() -> None:
    """A transitive rule looks at more versions than the newest, which is all that was asked for before."""

    def reply(handler: Handler) -> None:
        if handler.path.startswith("/compatibility/"):
            handler.send_json(200, {"is_compatible": True})
        elif handler.path.endswith("/versions"):
            handler.send_json(409, {"message": "version 1 has no field x"})
        else:
            handler.send_json(404, {"error_code": 40403})

    with (
        serving(reply) as server,
        pytest.raises(RegistryError, match=r"not compatible with \(version 1 has no field x\)"),
    ):
        _registry(server.url).register(SUBJECT, SCHEMA)
