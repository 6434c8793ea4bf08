"""A real broker behind every kind of lock: TLS with a certificate authority made here, SASL, client certificates.

USER and the client of the certificate may do everything. Others, made with `add_user`, may do what they are granted.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)  # fmt: skip

from streaminfer.bus.broker.settings import PREFIX
from streaminfer.runtime.rights import Grant
from tests.brokers.node import free_port
from tests.kafka_broker import Listener, LocalBroker, local_broker

OPERATIONS = {
    "Create": ACLOperation.CREATE, "Alter": ACLOperation.ALTER, "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE, "Describe": ACLOperation.DESCRIBE, "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
}  # fmt: skip
KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactionalId": ResourceType.TRANSACTIONAL_ID}
PATTERNS = {"literal": ACLResourcePatternType.LITERAL, "prefix": ACLResourcePatternType.PREFIXED}
WRONG = ("elsewhere", "expired")
"""Listeners whose certificates are of another host, and of another time."""
USER, PASSWORD = "alice", "correct-horse-7531"
LOGIN = "org.apache.kafka.common.security"
SUBJECTS = {
    "server": "subjectAltName=IP:127.0.0.1,DNS:localhost",
    "client": "extendedKeyUsage=clientAuth",
    "elsewhere": "subjectAltName=DNS:broker.example.org",
    "expired": "subjectAltName=IP:127.0.0.1,DNS:localhost",
}
DAYS = {"expired": "-1"}
"""For how long a certificate is valid, if not for two days."""


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
        signed = ("-CAkey", "ca.key", "-CAcreateserial", "-days", DAYS.get(name, "2"), "-extfile", extension.name)
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", *signed, "-out", f"{name}.pem")
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        (self.folder / f"{name}.both.pem").write_text(key.read_text() + certificate.read_text())
        return certificate, key

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, text=True, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


class Cutter:
    """Passes bytes on to a port, and cuts all connections when it is told to."""

    def __init__(self, target: int) -> None:
        self._target, self._lock, self._open = target, threading.Lock(), list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """How many connections there were."""
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(ends) // 2

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._server.accept()
                with suppress(OSError):
                    far = socket.create_connection(("127.0.0.1", self._target), 5)
                    far.settimeout(None)
                    with self._lock:
                        self._open += [near, far]
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Secured:
    """A broker with a listener for each way in, by name: `addresses`."""

    def __init__(self, broker: LocalBroker, ports: dict[str, int], authority: Authority, cutter: Cutter) -> None:
        self.broker, self.authority, self.cutter = broker, authority, cutter
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        self.admin = KafkaAdminClient(bootstrap_servers=broker.address)

    def add_user(self, name: str, secret: str) -> None:
        """Makes a user, or gives one another password."""
        made = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, secret)
        outcome = self.admin.alter_user_scram_credentials([made])
        assert outcome == {name: None}, outcome

    def allow(self, name: str, grants: Iterable[Grant]) -> None:
        wanted = rules(name, grants)
        if wanted:
            self.admin.create_acls(wanted)

    def forbid(self, name: str, grants: Iterable[Grant]) -> None:
        filters = [ACLFilter(x.principal, x.host, x.operation, x.permission_type, x.resource_pattern)
                   for x in rules(name, grants)]  # fmt: skip
        if filters:
            self.admin.delete_acls(filters)

    def settings(self, user: str, **more: str) -> dict[str, str]:
        """The environment of a program that logs in as a user."""
        said = {"SECURITY": "SASL_SSL", "CA_FILE": str(self.authority.certificate), "SASL_MECHANISM": "SCRAM-SHA-512",
                "USERNAME": user}  # fmt: skip
        return {PREFIX + name: value for name, value in {**said, **more}.items()}


def rules(name: str, grants: Iterable[Grant]) -> list[ACL]:
    """What `acls` prints, as the broker takes it."""
    return [
        ACL(f"User:{name}", "*", OPERATIONS[operation], ACLPermissionType.ALLOW,
            ResourcePattern(KINDS[each.resource.type], each.resource.name, PATTERNS[each.resource.pattern]))
        for each in grants for operation in each.operations
    ]  # fmt: skip


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    authority = Authority(folder / "authority")
    authority.sign("server")
    ports = {name: free_port() for name in ("scram", "plain", "mtls", "oauth", "cut", *WRONG)}
    cutter = Cutter(ports["cut"])
    tls = _tls(authority, "server")
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
    scram_login = {key: value for key, value in listeners["SCRAM"].settings.items() if "sasl" in key}
    listeners["CUT"] = Listener(ports["cut"], "SASL_SSL", cutter.port, {**tls, **scram_login})
    for name in WRONG:
        authority.sign(name)
        listeners[name.upper()] = Listener(ports[name], "SASL_SSL", None, {**_tls(authority, name), **scram_login})
    scram = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER};User:CN=client",  # anonymous ones come in where tests look after it
    }
    with local_broker(listeners=listeners, settings=rights, format_options=scram) as broker:
        try:
            yield Secured(broker, {**ports, "cut": cutter.port}, authority, cutter)
        finally:
            cutter.close()


def _tls(authority: Authority, name: str) -> dict[str, object]:
    """The settings of a listener that shows a certificate."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.folder / f"{name}.both.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.certificate,
    }


def token(subject: str = USER, lifetime_s: float = 600) -> str:
    """A JSON web token without a signature, as the broker's development validator takes it."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(x).encode()).decode().rstrip("=") for x in parts) + "."
