"""The services that a golden bus is written and continued by: the only file here that knows the insides of the program.

A refactoring edits this file and no other of this folder. The services must be the real ones, with their clock, their
wall clock and the worker's identity given; whatever else they write follows from the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from streaminfer import parse_spec
from streaminfer.bus.protocol import Bus, Topic
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import MasterMetrics, WorkerMetrics
from streaminfer.spec import Spec
from streaminfer.topics import declarations
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.events.formats import format_of

Clock = Callable[[], float]


def topics(document: Mapping[str, Any]) -> list[Topic]:
    """The topics that a spec has on a bus."""
    return names.topics_of(parse_spec(document))


def encoded(document: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Events as records in a spec's data format. Only the maker of golden data asks: the tests have the records."""
    return format_of(parse_spec(document)).encode([json.dumps(event).encode() for event in events])


def in_present_schema(topic: str, value: bytes) -> bytes:
    """A golden record as it is written now, if its topic has a newer schema: all its fields, and defaults for new ones.

    Whatever the program has changed in a field that was there before is still seen.
    """
    short = topic.rpartition(".")[2]
    if short not in declarations() or not declarations()[short].earlier:
        return value
    return DECLARED.encode(short, DECLARED.decode(short, value))


class _OneByOne(Worker):
    """A worker of before minibatches were merged: it makes an increment of each."""

    @staticmethod
    def merged_bytes(spec: Spec) -> int:
        return 0


def worker(document: Mapping[str, Any], bus: Bus, clock: Clock, identity: str, merges: bool) -> Service:
    spec, kind = parse_spec(document), Worker if merges else _OneByOne
    return kind(spec, bus, clock, identity, WorkerMetrics(CollectorRegistry(), spec.name))


def master(document: Mapping[str, Any], bus: Bus, clock: Clock) -> Service:
    spec = parse_spec(document)
    return Master(spec, bus, clock, MasterMetrics(CollectorRegistry(), spec.name), wall=clock)
