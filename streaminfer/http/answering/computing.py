"""Answers that are computed: draws of the posterior, and predictions for new rows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
from starlette.responses import Response

from streaminfer.http.answering.answers import Answers, json_answer
from streaminfer.http.answering.working import Workers
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.problems import Problem, bad_field
from streaminfer.http.routes import Asked
from streaminfer.models.keys import MAX_BYTES
from streaminfer.runtime.api import prediction
from streaminfer.runtime.api.prediction import CannotPredict
from streaminfer.runtime.api.predictor import ByKey, Predictor
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, plain
from streaminfer.runtime.monitoring.memory.keys import Building
from streaminfer.tables.kinds import kind_of
from streaminfer.wire.events.json_values import parse_json

INTERVAL: Final = 0.95
MOST_NUMBERS: Final = 1_000_000
"""Numbers of all draws in one answer."""
_MEMBERS: Final = {"rows", "interval", "key"}


class Computing:
    """The handlers of `sample` and `predict`."""

    def __init__(self, answers: Answers, workers: Workers, limits: Limits) -> None:
        self._answers, self._workers, self._limits = answers, workers, limits
        self._predictor: tuple[tuple[str, float], Predictor] | None = None
        """The last one: most requests are for the same posterior."""

    async def sample(self, asked: Asked) -> Response:
        found = self._found(asked["key"])
        return await self._workers.run(partial(self._sample, found, asked["n"], asked["seed"]))

    def _found(self, key: str | None) -> PosteriorSnapshot:
        if key is not None:
            return self._answers.of_key(key)
        if kind_of(self._answers.spec).by_key:
            rule = "must be said, as there is a posterior for each key"
            raise bad_field("key", rule, None, "say one of `keys`")
        return self._answers.posterior().found

    def _sample(self, found: PosteriorSnapshot, n: int, seed: int) -> Response:
        size = _draw_size(found)
        if n * size > MOST_NUMBERS:
            most = max(1, MOST_NUMBERS // size)
            rule = f"must be at most {most}, as a draw has {size} numbers"
            raise bad_field("n", rule, n, "ask for fewer draws, with several seeds")
        draws = found.sample(np.random.default_rng(seed), n)
        values = {name: plain(np.asarray(value, dtype=np.float64)) for name, value in draws.items()}
        about = {"name": found.name, "key": found.key, "version": found.version, "n": n, "seed": seed}
        return json_answer({**about, "draws": values})

    async def predict(self, asked: Asked) -> Response:
        rows, level, key = self._body(await asked.request.body())
        own_keys = kind_of(self._answers.spec).by_key and key is None
        source = self._answers.keys() if own_keys else self._found(key)
        return await self._workers.run(partial(self._predict, source, rows, level))

    def _body(self, text: bytes) -> tuple[list[Any], float, str | None]:
        """Rows, the probability of intervals and the key; raises Problem."""
        try:
            body = parse_json(text)
        except (ValueError, RecursionError) as error:
            raise bad_field("body", "must be JSON", str(error), "send an object with `rows`") from error
        if not isinstance(body, dict) or not set(body) <= _MEMBERS:
            raise bad_field("body", "must be an object with `rows`, and maybe `interval` and `key`", text[:100].decode(
                errors="replace"), "leave all else out")  # fmt: skip
        rows, level, key = body.get("rows"), body.get("interval", INTERVAL), body.get("key")
        most = self._limits.rows
        if not isinstance(rows, list) or not 1 <= len(rows) <= most or not all(isinstance(r, dict) for r in rows):
            got = f"{len(rows)} rows" if isinstance(rows, list) else rows
            raise bad_field("rows", f"must be a list of 1 to {most} objects", got, "send the rest with another request")
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise bad_field("interval", "must be a number between 0 and 1", level, "leave it out for 0.95")
        if key is not None and not (isinstance(key, str) and 1 <= len(key) <= MAX_BYTES):
            raise bad_field("key", f"must be a text of 1 to {MAX_BYTES} characters", key, "send a key that events have")
        return rows, float(level), key

    def _predict(self, source: PosteriorSnapshot | ByKey, rows: list[Any], level: float) -> Response:
        spec = self._answers.spec
        try:
            predictor = self._predictor_of(source, level)
            found = [each.to_json() for each in predictor.of_rows(rows)]
        except CannotPredict as error:
            raise Problem(422, str(error), field="model.kind", rule="must predict", value=spec.kind,
                          remedy="docs/own-models.md explains how a model predicts") from error  # fmt: skip
        except Building as error:
            raise Problem(503, "the keys are being read", headers={"Retry-After": "1"}) from error
        version = source.version if isinstance(source, PosteriorSnapshot) else None
        return json_answer({"name": spec.name, "version": version, "interval": level, "predictions": found})

    def _predictor_of(self, source: PosteriorSnapshot | ByKey, level: float) -> Predictor:
        spec = self._answers.spec
        inputs = prediction.inputs_of(spec)
        if not isinstance(source, PosteriorSnapshot):
            key = spec.key_field
            return Predictor(spec, inputs if key is None else (*inputs, key), level, source)
        place = (f"{source.version}/{source.snapshot.created_at}/{source.key}", level)
        kept = self._predictor
        if kept is None or kept[0] != place:
            kept = (place, Predictor(spec, inputs, level, source))
            self._predictor = kept
        return kept[1]


def _draw_size(found: PosteriorSnapshot) -> int:
    """Numbers of one draw."""
    if found.topics is not None:
        return max(1, found.topics.mean.size)
    return max(1, sum(moments.mean.size for moments in found.moments.values()))
