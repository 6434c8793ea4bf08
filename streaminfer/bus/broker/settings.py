"""The address of a Kafka cluster and its credentials, from the URL and the environment: no secret on a command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kafka.net.sasl.oauth import AbstractTokenProvider

from streaminfer.bus.environment import SettingsError, file_named, secret, text_of

PREFIX: Final = "STREAMINFER_KAFKA_"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class Address:
    """Servers to start from, and what every name on them begins with."""

    servers: tuple[str, ...]
    namespace: str = ""

    def __str__(self) -> str:
        return f"//{','.join(self.servers)}" + (f"/{self.namespace}" if self.namespace else "")


def parse_address(rest: str) -> Address:
    """`//host:port,host:port` or, with a namespace, `//host:port/namespace`; raises SettingsError."""
    if not rest.startswith("//"):
        raise SettingsError("kafka needs two slashes and a server, such as kafka://localhost:9092")
    servers, slash, namespace = rest[2:].partition("/")
    found = tuple(server.strip() for server in servers.split(","))
    for server in found:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[1]) < 65536:
            raise SettingsError(f"{server!r} is not host:port; write kafka://host:port,host:port")
    if slash and namespace and not _NAMESPACE.fullmatch(namespace):
        raise SettingsError(f"the namespace {namespace!r} must be 1 to 100 of the characters A-Z a-z 0-9 . _ -")
    return Address(found, namespace)


class Login:
    """The password, read again for every connection, and whether the cluster has ever taken it.

    A cluster that did so may refuse it for a while, as a password changes there and in a file one after the other.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = {} if environ is None else environ
        self.accepted = False

    def password(self) -> str | None:
        """What the file has now; None if it is not in a file."""
        path = self._environ.get(PREFIX + "PASSWORD_FILE")
        return None if path is None else text_of(path, PREFIX + "PASSWORD_FILE")

    def __repr__(self) -> str:
        return "Login()"


@dataclass(frozen=True)
class Settings:
    """What the clients need in addition to the address. `security` goes to kafka-python as it is."""

    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    user: str | None = None
    """Who logs in, if a name is known."""
    login: Login = field(default_factory=Login)
    replication: int = -1
    """Copies of each new partition; -1 is the broker's default."""
    compression: str = "lz4"
    """How batches of records are made smaller; see COMPRESSIONS."""
    compacted: Mapping[str, str] = field(
        default_factory=lambda: {"segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}
    )
    """More settings of compacted topics: what is restored from them should stay short."""


def settings_from(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from STREAMINFER_KAFKA_*; raises SettingsError."""
    raw = environ.get(PREFIX + "REPLICATION", "-1")
    if not re.fullmatch(r"-1|[1-9]\d{0,3}", raw):
        raise SettingsError(
            f"{PREFIX}REPLICATION is {raw!r}, it must be a positive number, or -1 for the broker's default"
        )
    compression = environ.get(PREFIX + "COMPRESSION", "lz4")
    if compression not in COMPRESSIONS:
        raise SettingsError(f"{PREFIX}COMPRESSION is {compression!r}, it must be one of {', '.join(COMPRESSIONS)}")
    security = _security(environ)
    return Settings(security, security.get("sasl_plain_username"), Login(environ), int(raw), compression)


class FileToken(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """An OAuth token that something else keeps fresh in a file; read again for every connection."""

    def __init__(self, path: str) -> None:
        self._path = path

    def token(self) -> str:
        return text_of(self._path, PREFIX + "TOKEN_FILE")


def _security(environ: Mapping[str, str]) -> dict[str, Any]:
    protocol = environ.get(PREFIX + "SECURITY", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise SettingsError(f"{PREFIX}SECURITY is {protocol!r}, it must be one of {', '.join(PROTOCOLS)}")
    if protocol == "SASL_PLAINTEXT" and environ.get(PREFIX + "ALLOW_PLAINTEXT") != "1":
        raise SettingsError(
            f"{PREFIX}SECURITY is {protocol!r}, which sends the log-in and all data without TLS: use SASL_SSL, or set "
            f"{PREFIX}ALLOW_PLAINTEXT=1 if nobody can listen"
        )
    found: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        found.update(_tls(environ))
    if protocol.startswith("SASL"):
        found.update(_sasl(environ))
    return found


def _tls(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, name in (("ssl_cafile", "CA_FILE"), ("ssl_certfile", "CERT_FILE"), ("ssl_keyfile", "KEY_FILE")):
        path = file_named(environ, PREFIX + name)
        if path:
            found[option] = path
    if ("ssl_certfile" in found) != ("ssl_keyfile" in found):
        raise SettingsError(f"{PREFIX}CERT_FILE and {PREFIX}KEY_FILE belong together: set both or neither")
    password = secret(environ, PREFIX + "KEY_PASSWORD")
    if password is None:
        return found
    path = environ.get(PREFIX + "KEY_PASSWORD_FILE")  # Python's ssl asks a function each time it reads the key
    return {**found, "ssl_password": password if path is None else partial(text_of, path, PREFIX + "KEY_PASSWORD_FILE")}


def _sasl(environ: Mapping[str, str]) -> dict[str, Any]:
    mechanism = environ.get(PREFIX + "SASL_MECHANISM", "")
    if mechanism not in MECHANISMS:
        raise SettingsError(f"{PREFIX}SASL_MECHANISM is {mechanism!r}, it must be one of {', '.join(MECHANISMS)}")
    found: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        provider = FileToken(environ.get(PREFIX + "TOKEN_FILE", ""))
        provider.token()
        return {**found, "sasl_oauth_token_provider": provider}
    username, password = environ.get(PREFIX + "USERNAME"), secret(environ, PREFIX + "PASSWORD")
    if not username or not password:
        # kafka-python takes empty SCRAM credentials without a word.
        raise SettingsError(
            f"{mechanism} needs {PREFIX}USERNAME and {PREFIX}PASSWORD or {PREFIX}PASSWORD_FILE, not empty"
        )
    return {**found, "sasl_plain_username": username, "sasl_plain_password": password}
