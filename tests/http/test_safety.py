"""Who is refused: wrong tokens and hosts, too much, too slow, too many."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from streaminfer.http.guarding.limits import Limits, Rates
from streaminfer.http.server import BACKLOG
from tests.http.site import SCRIPT, Got, Site, counted, site_of

TOKEN = "geheim-ü-0123456789"  # noqa: S105 (no secret)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Site]:
    with site_of(counted(), TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def hasty() -> Iterator[Site]:
    """A server with little patience and few places."""
    limits = Limits(request_seconds=0.6, write_seconds=0.6, connections=20, body_bytes=1 << 16)
    with site_of(counted(), limits=limits) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}".encode().decode("latin-1")}


def raw(site: Site, *pieces: bytes, pause: float = 0.0, wait: float = 10.0) -> bytes:
    """What comes back for some bytes, until the server ends the connection."""
    with site.connect() as connection:
        connection.settimeout(wait)
        found = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
        except OSError:
            pass  # it has refused already
        try:
            while data := connection.recv(65536):
                found += data
        except ConnectionResetError:
            pass
        return found


DATA = ("", "/verdict", "/history", "/services", "/metrics", "/dead-letters", "/sample", "/events")


def test_without_the_token_nothing_is_told(guarded: Site) -> None:
    paths = [*(f"{guarded.one}{rest}" for rest in DATA), "/v1/posteriors", "/metrics", "/openapi.json", "/nowhere"]
    wrong = (
        {}, bearer("wrong"), bearer(""), bearer(TOKEN + "x"), bearer(TOKEN[:-1]), {"Authorization": TOKEN[:6]},
        {"Cookie": "streaminfer=x"}, {"Cookie": f"streaminfer={TOKEN[:6]}"}, {"Authorization": "\xff"},
    )  # fmt: skip
    for path in paths:
        for headers in wrong:
            answer = guarded.ask(path, headers=headers)
            assert (answer.status, answer.kind) == (401, "application/problem+json"), (path, headers)
    assert guarded.ask(f"{guarded.one}/predict", "POST", b"{}").status == 401
    assert guarded.ask(guarded.one, headers=bearer(TOKEN)).status == 200


def test_what_tells_nothing_is_open(guarded: Site) -> None:
    assert [guarded.ask(path).status for path in ("/", "/index.html", "/healthz", "/readyz")] == [200] * 4


def test_the_token_is_exchanged_for_a_cookie(guarded: Site) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    wrong = guarded.ask("/login", "POST", b"token=wrong", form)
    assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
    right = guarded.ask("/login", "POST", b"token=geheim-%C3%BC-0123456789", form)
    assert (right.status, right.headers["location"]) == (303, "/")
    cookie, *attributes = [each.strip().lower() for each in right.headers["set-cookie"].split(";")]
    assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)
    assert TOKEN not in right.headers["set-cookie"]
    assert guarded.ask(guarded.one, headers={"Cookie": f"a=b; {cookie}"}).status == 200
    assert guarded.ask(guarded.one, headers={"Cookie": cookie[:-1]}).status == 401
    for body in (b"", b"token=", b"token=a&token=b", b"other=1", b"\xff"):
        assert guarded.ask("/login", "POST", body, form).status == 400


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "localhost.example.org:80", "10.0.0.1", "", "[::"]
)
def test_on_loopback_other_hosts_are_refused(site: Site, host: str) -> None:
    for path in (site.one, "/", "/healthz", "/nowhere"):
        answer = site.ask(path, headers={"Host": host})
        assert (answer.status, answer.document["field"]) == (403, "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.8.8.8", "[::1]:80"])
def test_on_loopback_its_names_are_taken(site: Site, host: str) -> None:
    assert site.ask(site.one, headers={"Host": host}).status == 200


def test_other_pages_may_not_ask(site: Site) -> None:
    for origin in ("http://example.org", "null", f"https://localhost:{site.port + 1}"):
        assert site.ask(site.one, headers={"Origin": origin}).document["field"] == "Origin"
    assert site.ask(site.one, headers={"Origin": f"http://127.0.0.1:{site.port}"}).status == 200
    assert "access-control-allow-origin" not in site.ask(site.one).headers


def check_headers(answer: Got) -> None:
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "server" not in answer.headers


def test_every_answer_has_the_headers_of_safety(site: Site, guarded: Site, hasty: Site) -> None:
    for path in ("/", site.one, "/nowhere", "/healthz", f"{site.one}/sample?n=0"):
        check_headers(site.ask(path))
    check_headers(guarded.ask(guarded.one))
    for refused in (raw(hasty, b"GARBAGE\r\n\r\n"), raw(hasty, b"GET / HTTP/1.1\r\n")):
        assert b"content-security-policy: default-src 'self'" in refused


def test_text_from_outside_is_never_markup(site: Site, cities: Site) -> None:
    """JSON with nosniff is not run as a page; what is refused is repeated in JSON alone."""
    asked = [(site, f"{site.one}/dead-letters"), (cities, f"{cities.one}/keys"), (cities, cities.one),
             (site, "/%3Cscript%3Ealert(1)%3C/script%3E"),
             (site, f"{site.one}/history?parameter={SCRIPT}")]  # fmt: skip
    for here, path in asked:
        answer = here.ask(path)
        assert answer.kind in {"application/json", "application/problem+json"}
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sample?n=0", "n"), ("sample?n=10001", "n"), ("sample?n=1e3", "n"), ("sample?n=", "n"),
        ("sample?seed=-1", "seed"), ("sample?n=1&n=2", "n"), ("sample?m=1", "query"), ("history?points=1", "points"),
        ("history?points=2001", "points"),
        ("metrics?limit=1001", "limit"), ("dead-letters?limit=0", "limit"), ("history?parameter=", "parameter"),
        ("dead-letters?after=x", "after"), ("services?x", "query"),
    ],
)  # fmt: skip
def test_bad_queries_say_field_rule_value_and_remedy(site: Site, query: str, field: str) -> None:
    answer = site.ask(f"{site.one}/{query}")
    assert (answer.status, answer.kind, answer.document["field"]) == (400, "application/problem+json", field)
    assert {"rule", "value", "remedy", "detail", "title"} <= answer.document.keys()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, "body"), (b"[]", 400, "body"), (b"{", 400, "body"), (b'{"rows": []}', 400, "rows"),
        (b'{"rows": {}}', 400, "rows"), (b'{"rows": [1]}', 400, "rows"), (b'{"rows": [{}], "x": 1}', 400, "body"),
        (b'{"rows": [{}], "interval": 1}', 400, "interval"), (b'{"rows": [{}], "interval": true}', 400, "interval"),
        (b'{"rows": [{}], "key": 1}', 400, "key"), (b'{"rows": [{}], "key": "x"}', 404, "keys"),
        (json.dumps({"rows": [{}] * 1001}).encode(), 400, "rows"), (b"[" * 100_000, 400, "body"),
        (b"\xff\xfe", 400, "body"), (b'{"rows": [{}], "key": ""}', 400, "key"),
    ],
)  # fmt: skip
def test_bad_bodies(site: Site, body: bytes, status: int, field: str) -> None:
    answer = site.ask(f"{site.one}/predict", "POST", body, {"Content-Type": "application/json"})
    assert (answer.status, answer.document["field"]) == (status, field)


def test_a_thousand_rows_are_taken(site: Site) -> None:
    assert len(site.post(f"{site.one}/predict", {"rows": [{}] * 1000}).document["predictions"]) == 1000


def test_bodies_of_another_kind_are_refused(site: Site) -> None:
    assert site.ask(f"{site.one}/predict", "POST", b"{}", {"Content-Type": "text/plain"}).status == 415


def test_other_methods_are_refused(site: Site) -> None:
    for path, allowed in ((site.one, "GET, HEAD"), (f"{site.one}/predict", "POST"), ("/", "GET, HEAD")):
        answer = site.ask(path, "DELETE")
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert site.ask(site.one, "HEAD").body == b""


@pytest.mark.parametrize("path", ["/predict", "", "/nowhere"])
def test_a_large_body_is_refused_before_it_comes(site: Site, path: str) -> None:
    """100 MB are announced, and none of them is waited for."""
    head = f"POST {site.one}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    begun = time.monotonic()
    answer = raw(site, head.encode(), b"x" * 100_000)
    assert b"413 " in answer
    assert b'"field": "body"' in answer
    assert time.monotonic() - begun < 8


def test_a_large_body_in_chunks_is_refused(site: Site) -> None:
    head = f"POST {site.one}/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    assert b"413 " in raw(site, head, *[chunk] * 64)


def test_endless_headers_are_refused(site: Site) -> None:
    pieces = [b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(2000)]
    assert b"431 " in raw(site, b"GET / HTTP/1.1\r\nHost: localhost\r\n", *pieces)


def test_endless_headers_after_a_body_are_refused(hasty: Site) -> None:
    """The trailers of a body in chunks count as its bytes."""
    head = (
        f"POST {hasty.one}/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n"
    )
    pieces = [b"".join(b"x-%d-%d: %s\r\n" % (i, j, b"y" * 1000) for j in range(100)) for i in range(40)]
    assert b"413 " in raw(hasty, head.encode(), *pieces)


def test_headers_after_a_body_are_not_those_of_the_request(guarded: Site) -> None:
    """A proxy that checks headers may pass on what comes after a body as it is."""
    head = f"POST {guarded.one}/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    body = "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    answer = raw(guarded, f"{head}{body}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_empty_lines_do_not_hold_a_connection(hasty: Site) -> None:
    """They may come before a request, but a request must come whole in time after them."""
    begun = time.monotonic()
    answer = raw(hasty, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", *[b"\r\n"] * 160, pause=0.05)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"408 " in answer
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx: ",
        b"POST /v1/posteriors/demo/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n",
        b"",
    ],
    ids=["header", "body", "nothing"],
)
def test_a_byte_at_a_time_is_cut(hasty: Site, head: bytes) -> None:
    """Headers, a body, or nothing at all: what is not whole in time is refused, however it comes."""
    begun = time.monotonic()
    answer = raw(hasty, head, *([b"a"] * 100 if head else []), pause=0.05)
    assert b"408 " in answer
    assert b'"field": "request"' in answer
    assert time.monotonic() - begun < 9


def test_more_connections_than_there_is_room_for_are_refused(hasty: Site) -> None:
    wait_until_empty(hasty)
    held = [hasty.connect() for _ in range(60)]
    try:
        refused = 0
        for connection in held:
            connection.settimeout(5)
            refused += b"503 " in connection.recv(4096)
            if refused >= 20:
                break
        assert refused >= 20
        assert hasty.server.n_connections <= 20 + BACKLOG
    finally:
        for connection in held:
            connection.close()
    wait_until_empty(hasty)
    assert hasty.ask("/healthz").status == 200


def wait_until_empty(site: Site) -> None:
    end = time.monotonic() + 20
    while site.server.n_connections and time.monotonic() < end:
        time.sleep(0.05)
    assert site.server.n_connections == 0


@pytest.mark.parametrize("n", [1000, pytest.param(5000, marks=pytest.mark.long)])
def test_thousands_of_connections_do_no_harm(n: int, site: Site) -> None:
    held: list[socket.socket] = []
    try:
        for _ in range(n):
            held.append(site.connect())
            if len(held) >= 800:  # this process, too, may have only so many
                held.pop(0).close()
        assert site.server.n_connections <= 512 + BACKLOG
    finally:
        for connection in held:
            connection.close()
    wait_until_empty(site)
    assert site.ask(site.one).status == 200


def test_a_client_that_asks_too_often_waits() -> None:
    with site_of(counted(), limits=Limits(rate=5.0, burst=5.0)) as site:
        statuses = [site.ask("/healthz").status for _ in range(8)]
        assert statuses[:5] == [200] * 5
        assert 429 in statuses
        late = site.ask(f"{site.one}/sample?n=10000")
        assert (late.status, late.document["field"]) == (429, "requests")
        assert int(late.headers["retry-after"]) >= 1


def test_rates_fill_again() -> None:
    now = [0.0]
    rates = Rates(Limits(rate=10.0, burst=2.0), lambda: now[0])
    assert [rates.take("a") for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]
    assert rates.take("b") == 0.0
    now[0] = 0.1
    assert rates.take("a") == 0.0
    now[0] = 100.0
    assert [rates.take("a", 2.0), rates.take("a", 1.0)] == [0.0, pytest.approx(0.1)]
