"""The dead letters that were not sent again, each once, in the order of their sources.

There may be more than memory holds: they are sorted in a temporary file, which is gone when it is closed.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from streaminfer.bus.protocol import Bus, BusError, Headers
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters.store import all_records
from streaminfer.spec import Spec
from streaminfer.wire import dead_letters
from streaminfer.wire.dead_letters import DeadLetter
from streaminfer.wire.errors import WireError

CACHE_KB: Final = 8_000
"""What of the file is held in memory."""
_TABLES: Final = f"""
    PRAGMA journal_mode = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -{CACHE_KB};
    CREATE TABLE letters (
        topic TEXT, number INTEGER, at INTEGER, retried BLOB, headers TEXT, value BLOB,
        PRIMARY KEY (topic, number, at)) WITHOUT ROWID;
    CREATE TABLE marks (retried BLOB PRIMARY KEY) WITHOUT ROWID; BEGIN"""
_WITHOUT_MARK: Final = "FROM letters WHERE retried NOT IN (SELECT retried FROM marks)"


class Pending:
    """Those on a bus when it was opened."""

    def __init__(self, spec: Spec, bus: Bus) -> None:
        with _on_disk():
            self._file = sqlite3.connect("", isolation_level=None)  # a file without a name, in the place for such
            self._file.executescript(_TABLES)
        try:
            self._read(spec, bus)
        except BaseException:
            self.close()
            raise

    def _read(self, spec: Spec, bus: Bus) -> None:
        for record in all_records(bus, names.topic(spec, "dead-letters")):
            if dead_letters.is_retried_mark(record.key):
                with _on_disk():
                    self._file.execute("INSERT OR IGNORE INTO marks VALUES (?)", (record.key,))
                continue
            try:
                letter = dead_letters.decode(record.value, record.headers)
            except WireError:
                continue  # not written by streaminfer, so it has no source to be sent back to
            source = (letter.topic, letter.partition, letter.offset)
            row = (*source, letter.retried_key, _packed(record.headers), record.value)
            with _on_disk():
                self._file.execute("INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?, ?)", row)

    def __len__(self) -> int:
        return int(self._file.execute(f"SELECT count(*) {_WITHOUT_MARK}").fetchone()[0])

    def __iter__(self) -> Iterator[DeadLetter]:
        rows = self._file.execute(f"SELECT value, headers {_WITHOUT_MARK} ORDER BY topic, number, at")
        for value, headers in rows:
            yield dead_letters.decode(value, _unpacked(headers))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise BusError(
            f"dead letters cannot be sorted in a temporary file: {error}; is there room on its disk? (TMPDIR names "
            "another folder)"
        ) from error


def _packed(headers: Headers) -> str:
    return json.dumps([[name, base64.b64encode(data).decode()] for name, data in headers])


def _unpacked(text: str) -> Headers:
    found: list[Any] = json.loads(text)
    return tuple((name, base64.b64decode(data)) for name, data in found)
