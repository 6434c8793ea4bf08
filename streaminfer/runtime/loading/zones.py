"""Times without a zone in a file are taken as UTC, and the user who loads the file is told so, once."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

from streaminfer.models.events import Field, look_up
from streaminfer.models.times import lacks_zone
from streaminfer.runtime.loading.files import Counted
from streaminfer.wire.events.json_values import parse_json

log = logging.getLogger(__name__)


class Zones:
    """Looks at the rows of one file as they pass, each the JSON text of an event."""

    def __init__(self, field: Field | None, file: str) -> None:
        """`field` has the time of events; None: their times do not matter."""
        self._field, self._file = field, file
        self._told = False

    def watched(self, rows: Iterator[bytes], lines: Counted) -> Iterator[bytes]:
        """The rows as they are."""
        if self._field is not None and not self._told:
            name = json.dumps(self._field.path[-1], ensure_ascii=False).encode()
            moment = rb'\s*:\s*"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?"'
            might = re.compile(re.escape(name) + moment).search
            for row in rows:
                if lines.zoneless or (might(row) and self._lacks_zone(self._field, row)):
                    log.warning("%s: times without a zone are taken as UTC", self._file)
                    self._told = True
                yield row
                if self._told:
                    break
        yield from rows

    @staticmethod
    def _lacks_zone(field: Field, row: bytes) -> bool:
        try:
            event = parse_json(row)
        except (ValueError, RecursionError):
            return False
        found = look_up(event, field.path)[0] if isinstance(event, dict) else None
        return isinstance(found, str) and lacks_zone(found)
