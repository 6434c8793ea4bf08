"""Who may ask: hosts, origins, tokens and cookies; and the headers that every answer has."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from streaminfer.http.problems import Problem, bad_field
from streaminfer.runtime.running.health import is_loopback

COOKIE: Final = "streaminfer"
COOKIE_SECONDS: Final = 30 * 86_400
HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
     b"object-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)  # fmt: skip


class Guard:
    """Lets requests through, or raises Problem. Without a token the address is on loopback."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def check(self, request: Request, is_open: bool) -> None:
        """`is_open`: whether the path needs no token, as it tells nothing of a posterior."""
        self._check_host(request)
        self._check_origin(request)
        if not is_open and self._token is not None and not self._is_known(request):
            raise Problem(
                401,
                "Authorization: must have the token of this monitor",
                field="Authorization",
                rule="must have the token of this monitor",
                remedy="send it as «Authorization: Bearer …», or sign in on the page",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def is_token(self, given: str) -> bool:
        return self._token is not None and _equal(given, self._token)

    @property
    def cookie(self) -> str:
        """What a browser has in place of the token, which cannot be computed from it."""
        return hmac.new((self._token or "").encode(), b"streaminfer cookie 1", hashlib.sha256).hexdigest()

    def _is_known(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(_as_sent(given)):
            return True
        try:
            found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and _equal(found.value, self.cookie)

    def _check_host(self, request: Request) -> None:
        """On loopback the name must be of loopback: a page elsewhere can give any other name our address."""
        if self._token is not None:
            return
        given = request.headers.get("host", "")
        if not is_loopback(_host_of(f"//{given}")):
            rule = "must be localhost or an address of loopback, as this server is for its own machine only"
            raise bad_field("Host", rule, given, "ask http://localhost, or set STREAMINFER_HTTP_TOKEN", status=403)

    def _check_origin(self, request: Request) -> None:
        given = request.headers.get("origin")
        if given is not None and _place_of(given) != _place_of(f"//{request.headers.get('host', '')}"):
            rule = "must be this server itself"
            raise bad_field("Origin", rule, given, "ask from this server's own page, or leave the header out", 403)


def _equal(given: str, wanted: str) -> bool:
    """Takes the same time whatever is different."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())


def _as_sent(text: str) -> str:
    """Starlette reads header bytes as Latin-1; tokens are in UTF-8."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _place_of(url: str) -> str:
    """Host and port."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""
