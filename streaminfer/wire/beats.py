"""Signs of life as records of the topic `health`. The key says which process of which service beats."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import require
from streaminfer.wire.snapshots import milliseconds

TOPIC: Final = "health"
SERVICE: Final = re.compile(r"[a-z][a-z-]{0,39}")
COUNTER: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")
MAX_COUNTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Beat:
    """One sign of life. Times are milliseconds since 1970, by the clock of the process."""

    service: str
    """Its role, such as `master`."""
    instance: str
    """Which process of the role; a restart keeps it."""
    start: int
    """When the process started."""
    host: str
    ready: bool
    counters: Mapping[str, float]
    at: int


def key_of(service: str, instance: str) -> bytes:
    """The key of a process's beats."""
    return f"{service}/{instance}".encode()


def encode(beat: Beat, schemas: Schemas = DECLARED) -> tuple[bytes, bytes]:
    """Key and record; raises BadValue if it would not be read."""
    value = {name: getattr(beat, name) for name in Beat.__slots__}
    _beat(value)
    return key_of(beat.service, beat.instance), schemas.encode(TOPIC, value)


def decode(key: bytes | None, data: bytes | None, schemas: Schemas = DECLARED) -> Beat:
    """What a record holds; raises WireError if it is not a beat."""
    value = schemas.decode(TOPIC, data)
    found = _beat({**value, **{name: milliseconds(value[name]) for name in ("start", "at")}})
    expected = key_of(found.service, found.instance)
    require(key == expected, "the key", "must be service/instance", (key or b"")[:40])
    return found


def _beat(value: Mapping[str, Any]) -> Beat:
    """Checks every field; raises BadValue."""
    service, counters = value["service"], value["counters"]
    known = SERVICE.fullmatch(service) is not None
    require(known, "service", "must have at most 40 small letters and hyphens", service[:40])
    chains.check_plain(value, ("instance", "host"))
    require(value["instance"] != "", "instance", "must not be empty", "")
    chains.check_times(value, ("start", "at"))
    require(len(counters) <= MAX_COUNTERS, "counters", f"must be at most {MAX_COUNTERS}", len(counters))
    for name, number in counters.items():
        if COUNTER.fullmatch(name) is None or not math.isfinite(number):
            raise BadValue(f"counters must have plain names and finite numbers (got {name[:40]!r}: {number!r})")
    return Beat(**value)
