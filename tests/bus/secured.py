"""A real broker behind every kind of lock: TLS with a certificate authority made here, SASL, client certificates."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers.node import free_port
from tests.kafka_broker import Listener, LocalBroker, local_broker

USER, PASSWORD = "alice", "correct-horse-7531"
LOGIN = "org.apache.kafka.common.security"
SUBJECTS = {
    "server": "subjectAltName=IP:127.0.0.1,DNS:localhost",
    "client": "extendedKeyUsage=clientAuth",
}


class Authority:
    """A certificate authority in a directory, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        names = ("-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names)

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def sign(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key; both are also in one file, name.both.pem, as Kafka wants them."""
        extension = self.folder / f"{name}.ext"
        extension.write_text(SUBJECTS[name])
        request = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", *request)
        signed = ("-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", extension.name)
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", *signed, "-out", f"{name}.pem")
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        (self.folder / f"{name}.both.pem").write_text(key.read_text() + certificate.read_text())
        return certificate, key

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, text=True, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


class Secured:
    """A broker with a listener for each way in, by name: `addresses`."""

    def __init__(self, broker: LocalBroker, ports: dict[str, int], authority: Authority) -> None:
        self.broker, self.authority = broker, authority
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    authority = Authority(folder / "authority")
    authority.sign("server")
    ports = {name: free_port() for name in ("scram", "plain", "mtls", "oauth")}
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.folder / "server.both.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.certificate,
    }
    logins = {
        "scram": ("SCRAM-SHA-512", f"{LOGIN}.scram.ScramLoginModule required;"),
        "plain": ("PLAIN", f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'),
        "oauth": (
            "OAUTHBEARER",
            f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=x;",
        ),
    }
    listeners = {"MTLS": Listener(ports["mtls"], "SSL", settings={**tls, "ssl.client.auth": "required"})}
    for name, (mechanism, login) in logins.items():
        sasl = {"sasl.enabled.mechanisms": mechanism, f"{mechanism.lower()}.sasl.jaas.config": login}
        listeners[name.upper()] = Listener(ports[name], "SASL_SSL", settings={**tls, **sasl})
    scram = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
    with local_broker(listeners=listeners, format_options=scram) as broker:
        yield Secured(broker, ports, authority)


def token(subject: str = USER, lifetime_s: float = 600) -> str:
    """A JSON web token without a signature, as the broker's development validator takes it."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(x).encode()).decode().rstrip("=") for x in parts) + "."
