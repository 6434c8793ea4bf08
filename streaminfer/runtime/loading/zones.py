"""Times without a zone in a file are taken as UTC, and the user who loads the file is told so, once."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from streaminfer.models.events import Field, look_up
from streaminfer.models.times import lacks_zone
from streaminfer.runtime.loading.files import Counted
from streaminfer.runtime.loading.parts import Part
from streaminfer.wire.events.json_values import parse_json

log = logging.getLogger(__name__)

_MOMENT: Final = rb'\s*:\s*"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?"'


class Zones:
    """Looks at the rows of one file as they pass."""

    def __init__(self, field: Field | None, file: str) -> None:
        """`field` has the time of events; None: their times do not matter."""
        self._field, self._file = field, file
        self._told = False

    def watched(self, parts: Iterator[Part], lines: Counted) -> Iterator[Part]:
        """The parts as they are."""
        for part in parts:
            if self._field is not None and not self._told and part.n and self._lack_zone(self._field, part, lines):
                log.warning("%s: times without a zone are taken as UTC", self._file)
                self._told = True
            yield part

    def _lack_zone(self, field: Field, part: Part, lines: Counted) -> bool:
        """Whether any time of a part lacks one; numbers need none."""
        if lines.zoneless or isinstance(part.run, np.ndarray):
            return lines.zoneless
        name = json.dumps(field.path[-1], ensure_ascii=False).encode()
        might = re.compile(re.escape(name) + _MOMENT).search
        return any(might(row) and self._lacks_zone(field, row) for row in part.run)

    @staticmethod
    def _lacks_zone(field: Field, row: bytes) -> bool:
        try:
            event = parse_json(row)
        except (ValueError, RecursionError):
            return False
        found = look_up(event, field.path)[0] if isinstance(event, dict) else None
        return isinstance(found, str) and lacks_zone(found)
