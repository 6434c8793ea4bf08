"""The table of routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from streaminfer.http.answering.answers import Answers, json_answer
from streaminfer.http.answering.computing import Computing
from streaminfer.http.answering.probes import METRICS, PLAIN, Probes
from streaminfer.http.answering.streaming import KIND as EVENTS
from streaminfer.http.answering.streaming import Streaming
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.guarding.signing_in import FORM, SigningIn
from streaminfer.http.parameters import Text, Whole
from streaminfer.http.problems import bad_field
from streaminfer.http.routes import Answer, Asked, Handler, Route
from streaminfer.tables.kinds import kind_of

ONE: Final = "/v1/posteriors/{name}"
LARGEST: Final = (1 << 63) - 1
KEY: Final = Text("key", "a key; a slash in it is sent as %2F", 256, place="path")
LIMIT: Final = Whole("limit", "how many are listed", 1, 1000, 100)


class One(NamedTuple):
    """The handlers of one posterior."""

    answers: Answers
    computing: Computing
    streaming: Streaming


def routes(
    ones: Mapping[str, One], probes: Probes, signing_in: SigningIn, describe: Handler, limits: Limits
) -> tuple[Route, ...]:
    """Every path with its handler. The page's files are not among them: they are no part of the API."""

    def of(pick: Callable[[One], Handler]) -> Handler:
        async def handle(asked: Asked) -> Response:
            return await pick(_one(ones, asked["name"]))(asked)

        return handle

    async def listed(_asked: Asked) -> Response:
        return json_answer({"posteriors": [one.answers.summary() for one in ones.values()]})

    all_keyed = all(kind_of(one.answers.spec).by_key for one in ones.values())
    name = Text("name", "the posterior's name, as in its spec", 40, place="path", only=tuple(ones))
    of_key = Text("key", "of a keyed posterior, the key", 256, required=all_keyed)
    n = Whole("n", "how many draws", 1, limits.draws, 100)
    seed = Whole("seed", "the same seed gives the same draws of the same version", 0, LARGEST, 0)
    since = Whole("since", "only what is newer than this number", 0, LARGEST, 0)
    points = Whole("points", "at most so many points, evenly apart", 2, 2000, 500)
    parameter = Text("parameter", "a parameter, or one of its numbers, such as weights[0]", 300)
    check = Text("check", "only this check", 40)
    return (
        Route(
            "GET",
            "/v1/posteriors",
            "The posteriors of this monitor",
            listed,
            Answer("which there are", schema="Posteriors"),
        ),
        Route(
            "GET",
            ONE,
            "The posterior now: the document of `snapshot --json`; with keys, the first of them",
            of(lambda one: one.answers.document),
            Answer("the document", schema="Posterior", headers=("ETag",)),
            (name,),
            (304, 404),
        ),
        Route(
            "GET",
            f"{ONE}/verdict",
            "Whether it can be trusted now, and why",
            of(lambda one: one.answers.verdict),
            Answer("the verdict", schema="Verdict"),
            (name,),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/history",
            "Means and 95% intervals over time, scores and drift",
            of(lambda one: one.answers.history),
            Answer("columns of points", schema="History"),
            (name, parameter, since, points),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/keys",
            "Keys in the order of their bytes",
            of(lambda one: one.answers.list_keys),
            Answer("a page of keys", schema="Keys"),
            (name, Text("after", "list the keys after this one", 256), LIMIT),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/keys/{{key}}",
            "The posterior of one key",
            of(lambda one: one.answers.key),
            Answer("the document", schema="Posterior", headers=("ETag",)),
            (name, KEY),
            (304, 404),
        ),
        Route(
            "GET",
            f"{ONE}/sample",
            "Draws of the posterior",
            of(lambda one: one.computing.sample),
            Answer("the draws by parameter", schema="Sample"),
            (name, n, seed, of_key),
            (404,),
        ),
        Route(
            "POST",
            f"{ONE}/predict",
            "Predictions for new rows without the target",
            of(lambda one: one.computing.predict),
            Answer("an answer for each row, in their order", schema="Predictions"),
            (name,),
            (404, 415, 422),
            body="Rows",
        ),
        Route(
            "GET",
            f"{ONE}/metrics",
            "What checks have found, oldest first",
            of(lambda one: one.answers.metrics),
            Answer("measurements", schema="Measurements"),
            (name, check, since, LIMIT),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/services",
            "The processes of the posterior and their signs of life",
            of(lambda one: one.answers.services),
            Answer("processes", schema="Services"),
            (name,),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/dead-letters",
            "Events that could not be absorbed, newest first",
            of(lambda one: one.answers.dead_letters),
            Answer("a page of them", schema="DeadLetters"),
            (name, Whole("after", "list older ones than this id: `next` of a page", 0, LARGEST), LIMIT),
            (404,),
        ),
        Route(
            "GET",
            f"{ONE}/events",
            "Server-sent events: what has changed, at most ten times a second",
            of(lambda one: one.streaming.events),
            Answer("events; the id of `posterior` is its version", EVENTS),
            (name,),
            (404,),
        ),
        Route("GET", "/openapi.json", "This description", describe, Answer("OpenAPI 3.1", schema="Description")),
        Route(
            "POST",
            "/login",
            "Exchanges the token for a cookie",
            signing_in.login,
            Answer("the cookie is set", kind="", status=303, headers=("Location", "Set-Cookie")),
            (),
            (415,),
            body="Token",
            body_kind=FORM,
            is_open=True,
        ),
        Route(
            "GET",
            "/healthz",
            "Whether the monitor works",
            probes.healthz,
            Answer("it does", PLAIN),
            plain=PLAIN,
            is_open=True,
        ),
        Route(
            "GET",
            "/readyz",
            "Whether the job is ready: all processes live, and there is a posterior",
            probes.readyz,
            Answer("it is", PLAIN),
            plain=PLAIN,
            is_open=True,
        ),
        Route("GET", "/metrics", "Metrics of the job for Prometheus", probes.metrics, Answer("metrics", METRICS)),
    )


def _one(ones: Mapping[str, One], name: str) -> One:
    if name in ones:
        return ones[name]
    raise bad_field("name", f"must be one of {', '.join(ones)}", name, "/v1/posteriors lists them", status=404)
