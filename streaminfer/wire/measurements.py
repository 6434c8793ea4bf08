"""What checks found as records of the topic `metrics`, one each. The key says which check of what."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.measurement import STATUSES, SUBJECTS, Measurement, Value
from streaminfer.measuring.published import Moment, Published
from streaminfer.wire import vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_INDEX, require
from streaminfer.wire.snapshots import milliseconds

TOPIC: Final = "metrics"
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""Of checks, values and curves."""
TARGETS: Final = ("", "all", "anchored", "segment")
MAX_SENTENCE: Final = 2_000
MAX_VALUES: Final = 5_000
MAX_CURVES: Final = 50
MAX_COLUMNS: Final = 100
MAX_PARTITIONS: Final = 100_000
MAX_SEED: Final = (1 << 63) - 1
_TEXTS: Final = ("check", "subject", "status", "sentence", "remedy", "target")
_COUNTS: Final = ("n_draws", "n_data")
_NUMBERS: Final = ("value", "se", "lower", "upper")


def key_of(measurement: Measurement) -> bytes:
    """The key of a measurement's record."""
    return f"{measurement.check}/{measurement.subject}".encode()


def encode(published: Published, max_bytes: int, schemas: Schemas = DECLARED) -> tuple[bytes, bytes]:
    """Key and record; raises BadValue if it would not be read, or is larger than `max_bytes`."""
    found, moment = published.measurement, published.moment
    value = {
        "fingerprint": published.fingerprint,
        "writer": published.writer,
        "version": moment.version,
        "base_version": moment.base_version,
        "epoch": moment.epoch,
        "segment": moment.segment,
        "frontier": [{"partition": p, "position": at} for p, at in sorted(moment.frontier.items())],
        "n_events": moment.n_events,
        "measured_at": published.measured_at,
        **{name: getattr(found, name) for name in _TEXTS},
        **{name: getattr(found, name) for name in _COUNTS},
        "seconds": found.seconds,
        "seed": found.seed,
        "values": [each._asdict() for each in found.values],
        "curves": {name: _packed(name, curve) for name, curve in found.curves.items()},
    }
    _published(value)
    key, data = key_of(found), schemas.encode(TOPIC, value)
    size, most = len(key) + len(data), max_bytes - chains.MARGIN
    require(size <= most, "the record", f"must have at most {most} bytes", size)
    return key, data


def decode(key: bytes | None, data: bytes | None, fingerprint: str, schemas: Schemas = DECLARED) -> Published:
    """What a record holds; raises WireError if it is not a measurement of this spec."""
    value = schemas.decode(TOPIC, data)
    chains.check_fingerprint(value, fingerprint)
    found = _published({**value, "measured_at": milliseconds(value["measured_at"])})
    require(key == key_of(found.measurement), "the key", "must be check/subject", (key or b"")[:40])
    return found


def _published(value: Mapping[str, Any]) -> Published:
    """Checks every field; raises BadValue."""
    chains.check_plain(value, ("fingerprint", "writer"))
    chains.check_numbers(value, ("version", "base_version", "n_events"))
    chains.check_times(value, ("measured_at",))
    require(
        value["base_version"] <= value["version"], "base_version", "must not be above version", value["base_version"]
    )
    for name in ("epoch", "segment"):
        require(0 <= value[name] <= MAX_INDEX, name, "must be 0 or more", value[name])
    moment = Moment(
        value["version"], value["base_version"], value["epoch"], value["segment"], _frontier(value["frontier"]),
        value["n_events"],
    )  # fmt: skip
    return Published(value["fingerprint"], value["writer"], value["measured_at"], moment, _measurement(value))


def _frontier(found: Sequence[Mapping[str, int]]) -> dict[int, int]:
    require(len(found) <= MAX_PARTITIONS, "frontier", f"must have at most {MAX_PARTITIONS} partitions", len(found))
    before = -1
    for each in found:
        rising = before < each["partition"] <= MAX_INDEX
        require(rising, "frontier", "must have different partitions in rising order", each["partition"])
        require(
            0 <= each["position"] <= chains.MAX_NUMBER, "frontier", "must have positions from 0 on", each["position"]
        )
        before = each["partition"]
    return {each["partition"]: each["position"] for each in found}


def _measurement(value: Mapping[str, Any]) -> Measurement:
    _check_name("check", value["check"])
    for name, known in (("subject", SUBJECTS), ("status", STATUSES), ("target", TARGETS)):
        require(value[name] in known, name, f"must be one of {', '.join(filter(None, known))}", value[name][:20])
    chains.check_plain(value, ("sentence", "remedy"), MAX_SENTENCE)
    require(value["sentence"] != "", "sentence", "must not be empty", "")
    chains.check_numbers(value, _COUNTS)
    seconds, seed = value["seconds"], value["seed"]
    require(0 <= seconds < math.inf, "seconds", "must be 0 or more, and finite", seconds)
    require(0 <= seed <= MAX_SEED, "seed", "must be 0 or more", seed)
    return Measurement(
        **{name: value[name] for name in (*_TEXTS, *_COUNTS)},
        seconds=seconds,
        seed=seed,
        values=_values(value["values"]),
        curves=_curves(value["curves"]),
    )


def _values(found: Sequence[Mapping[str, Any]]) -> tuple[Value, ...]:
    require(len(found) <= MAX_VALUES, "values", f"must be at most {MAX_VALUES}", len(found))
    for each in found:
        _check_name("values", each["name"])
        chains.check_plain(each, ("coordinate",))
        for name in _NUMBERS:
            known = each[name] is None or math.isfinite(each[name])
            require(known, "values", f"must have a {name} that is finite or null", each[name])
        se = each["se"]
        require(se is None or se >= 0, "values", "must have a se from 0 on", se)
    return tuple(Value(**each) for each in found)


def _packed(name: str, curve: NDArray[np.float64]) -> bytes:
    require(curve.ndim == 2, "curves", "must be matrices", name)
    return vectors.pack(np.concatenate([[curve.shape[1]], curve.ravel()]))


def _curves(found: Mapping[str, bytes]) -> dict[str, NDArray[np.float64]]:
    require(len(found) <= MAX_CURVES, "curves", f"must be at most {MAX_CURVES}", len(found))
    return {name: _curve(name, data) for name, data in found.items()}


def _curve(name: str, data: bytes) -> NDArray[np.float64]:
    _check_name("curves", name)
    if len(data) % vectors.NUMBER or not data:
        raise BadValue(f"curves must be whole numbers of {vectors.NUMBER} bytes (got {len(data)})")
    numbers = vectors.join([data], len(data) // vectors.NUMBER)
    columns = numbers[0]
    shaped = 1 <= columns <= MAX_COLUMNS and columns == int(columns) and (len(numbers) - 1) % int(columns) == 0
    require(shaped, "curves", f"must have 1 to {MAX_COLUMNS} columns, and whole rows", float(columns))
    return numbers[1:].reshape(-1, int(columns))


def _check_name(field: str, name: str) -> None:
    plain = NAME.fullmatch(name) is not None
    require(plain, field, "must have a name of at most 40 small letters, digits and _", name[:40])
