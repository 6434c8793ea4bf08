"""Bad events among good ones: each is one dead letter, byte for byte; the others are the posterior."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from tests.contracts.bus_harness import read_all
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, document, n_events, services, wait_for

GOOD = 20_000
BAD = 200
TOPIC = "bad.events"
KINDS: dict[str, bytes | None] = {
    "truncated": b'{"k": 3',
    "empty": b"",
    "wrong type": b'{"k": "three"}',
    "boolean": b'{"k": true}',
    "fraction": b'{"k": 1.5}',
    "missing field": b'{"j": 3}',
    "no object": b"[3]",
    "NaN": b'{"k": NaN}',
    "huge number": b'{"k": 1e400}',
    "many digits": b'{"k": ' + b"9" * 5000 + b"}",
    "deep": b'{"k": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "Avro of another schema": b"\x00\x00\x00\x00\x63" + b"\x06\x02",
    "invalid UTF-8": b'{"k": "\xff\xfe"}',
    "tombstone": None,
}


def bad_values(rng: random.Random) -> list[bytes | None]:
    """Every kind many times, and junk of 900 kB."""
    kinds = list(KINDS.values())
    junk = [rng.randbytes(900_000) for _ in range(5)]
    return [*junk, *(kinds[i % len(kinds)] for i in range(BAD - len(junk)))]


class Mixture:
    """Good and bad events in a random order on the data topic."""

    def __init__(self, folder: Path, url: str) -> None:
        rng = random.Random(3)
        self.counts = [rng.randrange(9) for _ in range(GOOD)]
        self.bad = bad_values(rng)
        self.spec = folder / "spec.yaml"
        model = {"kind": "poisson", "field": "k"}
        document = {"name": "bad", "data": {"partitions": 3}, "model": model, "inference": {"minibatch": 50}}
        self.spec.write_text(json.dumps(document))
        values = [*(json.dumps({"k": k}).encode() for k in self.counts), *self.bad]
        rng.shuffle(values)
        self._outputs = [
            Output(TOPIC, value, key=_key(i, value), partition=i % 3, headers=(("i", b"%d" % i),))
            for i, value in enumerate(values)
        ]
        self._url = url

    def publish(self, begin: float, end: float) -> None:
        """A share of all events, in the order they have."""
        part = self._outputs[int(begin * len(self._outputs)) : int(end * len(self._outputs))]
        with open_bus(self._url) as bus:
            names.create_topics(load_spec(self.spec), bus)
            for i in range(0, len(part), 500):
                bus.publish(part[i : i + 500])

    def check_posterior(self, n_dead_lettered: int) -> None:
        found = document(self.spec, self._url)
        assert found["n_events"] == GOOD
        assert found["n_dead_lettered"] == n_dead_lettered
        assert found["natural"] == pytest.approx([1 + sum(self.counts), 1 + GOOD], rel=1e-9)

    def check_letters(self, listed: list[dict[str, Any]]) -> None:
        """Exactly the bad events, each with its own source and the reason."""
        assert Counter(_bytes(letter) for letter in listed) == Counter(self.bad)
        assert len({(letter["partition"], letter["offset"]) for letter in listed}) == BAD
        assert all(letter["topic"] == TOPIC and letter["reason"] for letter in listed)


def _key(i: int, value: bytes | None) -> bytes | None:
    """Every other record has one, and every tombstone: Kafka's client sends none without."""
    return str(i).encode() if i % 2 or value is None else None


def _bytes(letter: dict[str, Any]) -> bytes | None:
    return None if letter["value_base64"] is None else base64.b64decode(letter["value_base64"])


@pytest.fixture
def mixture(programs: Programs, bus_url: str) -> Mixture:
    return Mixture(programs.folder, bus_url)


def listed(programs: Programs, mixture: Mixture, url: str, *more: str) -> list[dict[str, Any]]:
    return programs.run("dead-letters", mixture.spec, "--json", "--bus", url, *more).documents


@kafka_later
def test_bad_events_are_dead_letters_once_and_are_sent_again_once(
    programs: Programs, bus_url: str, mixture: Mixture
) -> None:
    mixture.publish(0, 1)
    programs.run("up", mixture.spec, "--workers", 2, "--until-idle", "--bus", bus_url)
    mixture.check_posterior(BAD)
    first = listed(programs, mixture, bus_url, "--retry")
    mixture.check_letters(first)

    nothing = programs.run("dead-letters", mixture.spec, "--retry", "--bus", bus_url)
    assert nothing.out == "no dead letters\n"
    assert "0 of 0 sent again" in nothing.err
    # Nothing but bad events is new, which is a failure.
    programs.run("up", mixture.spec, "--workers", 2, "--until-idle", "--bus", bus_url, code=1)
    mixture.check_posterior(2 * BAD)
    again = listed(programs, mixture, bus_url, "--retry")
    mixture.check_letters(again)
    assert not {(x["partition"], x["offset"]) for x in first} & {(x["partition"], x["offset"]) for x in again}
    with open_bus(bus_url) as bus:
        assert len(read_all(bus, TOPIC)) == GOOD + 3 * BAD


@kafka_later
def test_a_worker_killed_among_bad_events_buries_each_once(programs: Programs, bus_url: str, mixture: Mixture) -> None:
    up = programs.start("up", mixture.spec, "--workers", 2, "--bus", bus_url)
    for part in range(4):
        before = n_events(mixture.spec, bus_url)
        mixture.publish(part / 4, (part + 1) / 4)
        wait_for(lambda before=before: n_events(mixture.spec, bus_url) > before, "the posterior moves", interval=0.01)
        wait_for(lambda: bool(services(up.pid, "svb-worker")), "a worker runs", interval=0.01)
        workers = services(up.pid, "svb-worker")
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
    assert up.end() == 0, up.err
    # 1 if by chance nothing but bad events was left.
    assert programs.start("up", mixture.spec, "--until-idle", "--bus", bus_url).process.wait(120) in {0, 1}
    mixture.check_posterior(BAD)
    mixture.check_letters(listed(programs, mixture, bus_url))
