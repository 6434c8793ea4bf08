"""Asks a monitor on this machine, if there is one: it finds a key at once, and the topic must be read for it.

Whatever is not as it should be means that there is no answer; who asks then reads the topic.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote

from streaminfer.bus.protocol import Bus, BusError, Partition
from streaminfer.http.app import INSTANCE
from streaminfer.runtime import names
from streaminfer.runtime.running.health import AddressError, token_of
from streaminfer.runtime.telemetry import HTTP_PORT, MonitorMetrics
from streaminfer.spec import Spec
from streaminfer.wire import beats
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.beats import Beat
from streaminfer.wire.errors import WireError

BACK: Final = 500
"""Positions of the health topic that are looked at."""
FRESH_MS: Final = 20_000
SECONDS: Final = 2.0
LONGEST: Final = 16 << 20


def document_of_key(
    spec: Spec, bus: Bus, key: str, schemas: Schemas = DECLARED, environ: Mapping[str, str] = os.environ
) -> dict[str, Any] | None:
    """The document of a key as a monitor has it; None if none answers, or it does not have the key."""
    try:
        beat = _monitor(spec, bus, schemas)
        return None if beat is None else _ask(spec, beat, key, token_of(environ))
    except (BusError, AddressError, OSError, HTTPException, ValueError):
        return None


def _monitor(spec: Spec, bus: Bus, schemas: Schemas) -> Beat | None:
    """The newest beat of a monitor on this machine that serves."""
    partition = Partition(names.topic(spec, beats.TOPIC), 0)
    start, end = bus.starts(partition.topic)[0], bus.ends(partition.topic)[0]
    found: dict[bytes, Beat | None] = {}
    deadline = time.monotonic() + SECONDS
    with bus.reader({partition: max(start, end - BACK)}) as reader:
        while reader.position(partition) < end and time.monotonic() < deadline:
            for record in (each for part in reader.poll(0.5).slices for each in part.records):
                fresh = record.value is not None and time.time() * 1000 - record.timestamp < FRESH_MS
                try:
                    beat = beats.decode(record.key, record.value, schemas) if fresh else None
                except WireError:
                    continue
                found[record.key or b""] = beat
    serving = [each for each in found.values() if each is not None and _serves_here(each)]
    return max(serving, key=lambda each: each.at, default=None)


def _serves_here(beat: Beat) -> bool:
    here = beat.host == socket.gethostname()
    return here and beat.service == MonitorMetrics.role and 0 < beat.counters.get(HTTP_PORT, 0.0) < 65536


def _ask(spec: Spec, beat: Beat, key: str, token: str | None) -> dict[str, Any] | None:
    """The answer of the very monitor that has beaten, on the same bus and with the same spec."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    with closing(HTTPConnection("127.0.0.1", int(beat.counters[HTTP_PORT]), timeout=SECONDS)) as connection:
        connection.request("GET", f"/v1/posteriors/{spec.name}/keys/{quote(key, safe='')}", headers=headers)
        answer = connection.getresponse()
        body = answer.read(LONGEST)
        if answer.status != 200 or answer.getheader(INSTANCE) != beat.instance:
            return None
    found = json.loads(body)
    is_it = isinstance(found, dict) and found.get("fingerprint") == spec.fingerprint and found.get("key") == key
    return found if is_it else None
