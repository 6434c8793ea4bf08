"""Answers from the memory: the posterior, its keys and history, checks, services and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from streaminfer.http.problems import Problem, bad_field
from streaminfer.http.routes import JSON, Asked
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.monitoring.memory.keys import Building, KeyIndex
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.monitoring.memory.shown import Shown, encoded, etag_of, shown
from streaminfer.tables.kinds import kind_of
from streaminfer.wire.snapshots import iso

FIRST_KEYS: Final = 100
MOST_CURVES: Final = 64
"""Parameters whose history one answer has."""


def json_answer(document: Any, etag: str | None = None) -> Response:
    return bytes_answer(encoded(document), etag)


def bytes_answer(body: bytes, etag: str | None = None) -> Response:
    headers = {"Cache-Control": "no-cache"} if etag is None else {"Cache-Control": "no-cache", "ETag": etag}
    return Response(body, 200, headers, JSON)


def unchanged(asked: Asked, etag: str) -> bool:
    """Whether the client has what it asks for (RFC 9110, 13.1.2)."""
    given = asked.request.headers.get("if-none-match", "")
    return any(each.strip().removeprefix("W/") in {etag, "*"} for each in given.split(","))


def not_modified(etag: str) -> Response:
    return Response(None, 304, {"Cache-Control": "no-cache", "ETag": etag})


class Answers:
    """The handlers of all paths of one posterior that only read."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.spec = memory, memory.spec

    def posterior(self) -> Shown:
        """The newest; raises Problem if there is none yet."""
        found = self.memory.posterior
        if found is None:
            detail = f"{self.spec.name}: there is no posterior yet"
            raise self._not_yet(f"{detail}: {self.memory.chains}" if self.memory.chains else detail)
        return found

    def keys(self) -> KeyIndex:
        """Raises Problem if the posterior has no keys, or they are not read yet."""
        if not kind_of(self.spec).by_key:
            rule = "the posterior has no keys: there is one for all events"
            raise Problem(404, f"{self.spec.name}: {rule}", field="keys", rule=rule, remedy="ask for the posterior")
        if self.memory.keys is None or not self.memory.keys.complete:
            raise self._not_yet(f"{self.spec.name}: its keys are being read")
        return self.memory.keys

    def _not_yet(self, detail: str) -> Problem:
        reading = self.memory.reading
        more = {"progress": reading._asdict()}
        return Problem(503, detail, remedy="ask again in a second", headers={"Retry-After": "1"}, more=more)

    def of_key(self, key: str) -> PosteriorSnapshot:
        """The posterior of a key; raises Problem."""
        index = self.keys()
        try:
            found = index.find(key)
        except Building as error:
            raise self._not_yet(f"{self.spec.name}: its keys are being read") from error
        except ValueError:
            found = None  # no event can have it
        if found is None:
            rule = "must be a key that events have"
            remedy = f"/v1/posteriors/{self.spec.name}/keys lists those that events have"
            raise bad_field("key", rule, key, remedy, status=404)
        return found

    def summary(self) -> dict[str, Any]:
        """One line of a list."""
        newest = self.memory.posterior
        return {
            "name": self.spec.name,
            "model": self.spec.kind,
            "method": self.spec.inference.method,
            "kind": kind_of(self.spec).name,
            "keyed": kind_of(self.spec).by_key,
            "fingerprint": self.spec.fingerprint,
            "version": None if newest is None else newest.version,
            "n_events": None if newest is None else newest.found.n_events,
            "progress": self.memory.chains,
            "href": f"/v1/posteriors/{self.spec.name}",
        }

    async def document(self, asked: Asked) -> Response:
        newest = self.posterior()
        if unchanged(asked, newest.etag):
            return not_modified(newest.etag)
        if not kind_of(self.spec).by_key:
            return bytes_answer(newest.body, newest.etag)
        listed = self._page("", FIRST_KEYS)
        return json_answer({**newest.found.about(), **listed}, newest.etag)

    async def list_keys(self, asked: Asked) -> Response:
        return json_answer({"name": self.spec.name, **self._page(asked["after"] or "", asked["limit"])})

    def _page(self, after: str, limit: int) -> Mapping[str, Any]:
        try:
            found = self.keys().page(after, limit)
        except Building as error:
            raise self._not_yet(f"{self.spec.name}: its keys are being read") from error
        more = found[-1].key if len(found) == limit else None
        return {"keys": [each._asdict() for each in found], "next": more}

    async def key(self, asked: Asked) -> Response:
        found = self.of_key(asked["key"])
        etag = etag_of(found)
        return not_modified(etag) if unchanged(asked, etag) else bytes_answer(shown(found).body, etag)

    async def verdict(self, _asked: Asked) -> Response:
        newest, found = self.memory.posterior, self.memory.verdict
        return json_answer(
            {
                "name": self.spec.name,
                "version": None if newest is None else newest.version,
                "at": iso(self.memory.now()),
                "verdict": found.verdict,
                "reasons": [reason._asdict() for reason in found.reasons],
            }
        )

    async def history(self, asked: Asked) -> Response:
        history = self.memory.history
        wanted = self._coordinates(asked["parameter"])
        found = history.document(wanted, asked["since"], asked["points"])
        parameters = list(history.coordinates)
        return json_answer({"name": self.spec.name, **found, "coordinates": parameters})

    def _coordinates(self, parameter: str | None) -> list[int]:
        """The numbers of the coordinates that a parameter has, or of the first ones; raises Problem."""
        known = self.memory.history.coordinates
        if parameter is None:
            return list(range(min(MOST_CURVES, len(known))))
        found = [i for i, name in enumerate(known) if name == parameter or name.startswith(f"{parameter}[")]
        if not found:
            rule = "must be a parameter, or one of its numbers such as weights[0]"
            raise bad_field("parameter", rule, parameter, "`coordinates` of an answer without it has all", status=404)
        return found[:MOST_CURVES]

    async def metrics(self, asked: Asked) -> Response:
        page = self.memory.measurements.page(asked["check"], asked["since"], asked["limit"])
        return json_answer({"name": self.spec.name, "measurements": page})

    async def services(self, _asked: Asked) -> Response:
        found = self.memory.services.documents(self.memory.now())
        return json_answer({"name": self.spec.name, "services": found})

    async def dead_letters(self, asked: Asked) -> Response:
        listed, more = self.memory.dead_letters.page(asked["after"], asked["limit"])
        return json_answer({"name": self.spec.name, "dead_letters": listed, "next": more})
