"""The address of a schema registry and its credentials: from the environment only."""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from streaminfer.bus.environment import SettingsError, file_named, secret, text_of
from streaminfer.topics import declarations
from streaminfer.wire.avro import MAX_ID

PREFIX: Final = "STREAMINFER_SCHEMA_REGISTRY_"
URL: Final = PREFIX + "URL"
EARLIER: Final = "STREAMINFER_SCHEMA_IDS"

_PART = re.compile(r"([a-z-]+)=([1-9]\d{0,9})")


@dataclass(frozen=True)
class Settings:
    """A registry's address and credentials. `url` has none and may be shown."""

    scheme: str
    host: str
    port: int
    path: str
    authorization: str | None = field(default=None, repr=False)
    """The header that lets us in."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must not be in any message."""
    ca_file: str | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise SettingsError(f"{PREFIX}CA_FILE is {self.ca_file!r}, which holds no certificates: {error}") from error


def settings_from(environ: Mapping[str, str] = os.environ) -> Settings | None:
    """From STREAMINFER_SCHEMA_REGISTRY_*, files are read now; None if no registry is configured."""
    raw = environ.get(URL, "")
    if not raw:
        lost = sorted(name for name in environ if name.startswith(PREFIX) and name != URL and environ[name])
        if lost:
            raise SettingsError(f"{lost[0]} is set but {URL} is not: set both or neither")
        return None
    scheme, host, port, path = _address(raw)
    ca_file = file_named(environ, PREFIX + "CA_FILE")
    if ca_file and scheme != "https":
        raise SettingsError(f"{PREFIX}CA_FILE is for https, and {URL} begins with {scheme}:")
    authorization, secrets = _authorization(environ)
    return Settings(scheme, host, port, path, authorization, secrets, ca_file)


def earlier_ids(environ: Mapping[str, str] = os.environ) -> dict[str, frozenset[int]]:
    """Ids of a registry that is no longer used, from STREAMINFER_SCHEMA_IDS: `increments=17,posterior=18`."""
    found: dict[str, frozenset[int]] = {}
    framed = [name for name, declaration in declarations().items() if declaration.schema is not None]
    for part in filter(None, environ.get(EARLIER, "").split(",")):
        match = _PART.fullmatch(part.strip())
        if match is None or match[1] not in framed or int(match[2]) > MAX_ID:
            raise SettingsError(
                f"{EARLIER} has {part[:80]!r}, it must be TOPIC=ID with one of the topics {', '.join(framed)} "
                f"and an id from 1 to {MAX_ID}"
            )
        found[match[1]] = found.get(match[1], frozenset()) | {int(match[2])}
    return found


def _address(raw: str) -> tuple[str, str, int, str]:
    """The parts of the URL. Messages do not repeat it: it may contain a secret."""
    shape = "write http://host:port/path or https://host:port/path, such as http://localhost:8080/apis/ccompat/v7"
    if not raw.isascii() or not raw.isprintable() or " " in raw:
        raise SettingsError(f"{URL} has characters that no URL has: {shape}")
    try:
        parts = urlsplit(raw)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise SettingsError(f"{URL} is not a URL: {shape}") from None
    if "@" in parts.netloc:
        raise SettingsError(f"{URL} must not hold a user or password: use {PREFIX}USERNAME and {PREFIX}PASSWORD_FILE")
    if "?" in raw or "#" in raw:
        raise SettingsError(f"{URL} must end with the path, without ? or #: {shape}")
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        raise SettingsError(f"{URL} is not the URL of a registry: {shape}")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/")


def _authorization(environ: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """The header, and all that must stay secret of it."""
    username, password = environ.get(PREFIX + "USERNAME"), secret(environ, PREFIX + "PASSWORD")
    token_file = environ.get(PREFIX + "TOKEN_FILE")
    if token_file:
        if username or password:
            raise SettingsError(f"{PREFIX}TOKEN_FILE and {PREFIX}USERNAME are both set: choose one")
        token = _header_safe(text_of(token_file, PREFIX + "TOKEN_FILE"), PREFIX + "TOKEN_FILE")
        return f"Bearer {token}", (token,)
    if not username and not password:
        return None, ()
    if not username or not password or ":" in username:
        raise SettingsError(
            f"{PREFIX}USERNAME (without a colon) and {PREFIX}PASSWORD or {PREFIX}PASSWORD_FILE belong together: "
            "set both, not empty, or neither"
        )
    encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
    return f"Basic {encoded}", (encoded, password)


def _header_safe(token: str, variable: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"{variable} names a file that is not a token: one line of ASCII without blanks")
    return token
