"""The page's way in: a token is exchanged for a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.responses import Response

from streaminfer.http.guarding.guard import COOKIE, COOKIE_SECONDS, Guard
from streaminfer.http.problems import Problem, bad_field
from streaminfer.http.routes import Asked

FORM: Final = "application/x-www-form-urlencoded"


class SigningIn:
    """The handler of `/login`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def login(self, asked: Asked) -> Response:
        try:
            body = (await asked.request.body()).decode()
            fields = parse_qsl(body, keep_blank_values=True, strict_parsing=True, max_num_fields=10)
        except ValueError as error:
            raise bad_field("body", f"must be {FORM}", None, "send token=…") from error
        if [name for name, _ in fields] != ["token"] or not 1 <= len(fields[0][1]) <= 1000:
            raise bad_field("token", "must be said once, with 1 to 1000 characters", None, "send token=…")
        if not self._guard.is_token(fields[0][1]):
            raise Problem(401, "token: is not the token of this monitor", field="token",
                          rule="must be the token of this monitor", headers={"WWW-Authenticate": "Bearer"},
                          remedy="look up STREAMINFER_HTTP_TOKEN where the monitor runs")  # fmt: skip
        answer = Response(None, 303, {"Location": "/", "Cache-Control": "no-store"})
        answer.set_cookie(COOKIE, self._guard.cookie, COOKIE_SECONDS, path="/", httponly=True, samesite="strict")
        return answer
