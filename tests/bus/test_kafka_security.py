"""The Kafka bus on a broker that asks for credentials: the right secret works, a wrong one is told soon, never
shown."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from streaminfer.bus.broker.settings import PREFIX, Address, settings_from
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import BusError, Output, Partition, Position, Topic, Unavailable
from tests.bus.secured import PASSWORD, USER, Authority, Secured, token
from tests.bus.secured import WRONG as BAD

pytestmark = pytest.mark.xdist_group("security")
LONG = pytest.mark.long

DEADLINE_S = 10.0
P0 = Partition("t", 0)
WRONG = "wrong-battery-8642"


def open_bus(secured: Secured, listener: str, environ: dict[str, str]) -> KafkaBus:
    """A bus through a listener, with the certificate authority unless another one is given."""
    common = {"SECURITY": "SSL" if listener == "mtls" else "SASL_SSL", "CA_FILE": str(secured.authority.certificate)}
    settings = settings_from({PREFIX + name: value for name, value in {**common, **environ}.items()})
    address = Address((secured.addresses[listener],), uuid.uuid4().hex[:8])
    return KafkaBus(address, settings, session_s=6, deadline_s=DEADLINE_S)


def check_works(bus: KafkaBus) -> None:
    """Publish, commit in a transaction, join a group, and read all of it back."""
    with bus:
        bus.create([Topic("t", 1)])
        bus.publish([Output("t", b"published")])
        with bus.writer("w") as writer:
            writer.commit([Output("t", b"committed")], {P0: Position(1)}, "g")
        assert bus.committed("g") == {P0: Position(1)}
        end, found = bus.ends("t")[0], []
        with bus.reader({P0: 0}) as reader:
            while reader.position(P0) < end:
                found += [record.value for part in reader.poll(1).slices for record in part.records]
        assert found == [b"published", b"committed"]
        with bus.member("g", ["t"]) as member:
            deadline = time.monotonic() + 2 * DEADLINE_S
            while P0 not in member.assignment:
                assert time.monotonic() < deadline
                member.poll(0.1)


def check_refused(bus: KafkaBus, message: str, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is tried fails within the deadline, with an error that no retry heals and that says what is wrong."""
    with bus:
        attempts = {
            "create": lambda: bus.create([Topic("t", 1)]),
            "topics": bus.topics,
            "member": lambda: bus.member("g", ["t"]),
            "writer": lambda: bus.writer("w"),
            "reader": lambda: bus.reader({P0: 0}),
        }
        for name, attempt in attempts.items():
            began = time.monotonic()
            with pytest.raises(BusError, match=message) as caught:
                attempt()
            assert time.monotonic() - began < DEADLINE_S, name
            assert not isinstance(caught.value, Unavailable), f"{name} would be tried for ever: {caught.value}"
            assert secret not in str(caught.value)
            assert secret not in repr(caught.value.__cause__)
    assert secret not in caplog.text


def password(mechanism: str, secret: str = PASSWORD) -> dict[str, str]:
    return {"SASL_MECHANISM": mechanism, "USERNAME": USER, "PASSWORD": secret}


def test_scram_over_tls(secured: Secured) -> None:
    check_works(open_bus(secured, "scram", password("SCRAM-SHA-512")))


def test_scram_with_a_wrong_password(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    bus = open_bus(secured, "scram", password("SCRAM-SHA-512", WRONG))
    check_refused(bus, "refuses the log-in.*_PASSWORD", WRONG, caplog)


@LONG
def test_plain_over_tls(secured: Secured) -> None:
    check_works(open_bus(secured, "plain", password("PLAIN")))


@LONG
def test_plain_with_a_wrong_password(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    check_refused(open_bus(secured, "plain", password("PLAIN", WRONG)), "refuses the log-in", WRONG, caplog)


@LONG
def test_a_mechanism_that_the_broker_does_not_have(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    bus = open_bus(secured, "scram", password("PLAIN"))
    check_refused(bus, "refuses the log-in.*SASL_MECHANISM", PASSWORD, caplog)


@LONG
def test_a_certificate_of_our_own(secured: Secured) -> None:
    certificate, key = secured.authority.sign("client")
    check_works(open_bus(secured, "mtls", {"CERT_FILE": str(certificate), "KEY_FILE": str(key)}))


@LONG
@pytest.mark.parametrize("whose", ["none", "foreign"])
def test_no_certificate_of_our_own_or_one_that_somebody_else_signed(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture, whose: str
) -> None:
    files = {}
    if whose == "foreign":
        certificate, key = Authority(tmp_path / "foreign").sign("client")
        files = {"CERT_FILE": str(certificate), "KEY_FILE": str(key)}
    check_refused(open_bus(secured, "mtls", files), "TLS.*CERT_FILE", "PRIVATE KEY", caplog)


def test_a_broker_whose_authority_we_do_not_know(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = Authority(tmp_path / "foreign").certificate
    bus = open_bus(secured, "scram", {**password("SCRAM-SHA-512"), "CA_FILE": str(foreign)})
    check_refused(bus, "TLS.*CA_FILE", PASSWORD, caplog)


@pytest.mark.parametrize("listener", BAD)
def test_a_broker_with_a_certificate_of_another_host_or_time(
    secured: Secured, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    why = {"elsewhere": "IP address mismatch|doesn't match|not valid for", "expired": "certificate has expired"}
    check_refused(open_bus(secured, listener, password("SCRAM-SHA-512")), why[listener], PASSWORD, caplog)


@LONG
def test_oauth(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token())
    check_works(open_bus(secured, "oauth", {"SASL_MECHANISM": "OAUTHBEARER", "TOKEN_FILE": str(file)}))


@LONG
def test_oauth_with_a_token_that_has_expired(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(token(lifetime_s=-60))
    bus = open_bus(secured, "oauth", {"SASL_MECHANISM": "OAUTHBEARER", "TOKEN_FILE": str(file)})
    check_refused(bus, "refuses the log-in.*_TOKEN_FILE", file.read_text(), caplog)
