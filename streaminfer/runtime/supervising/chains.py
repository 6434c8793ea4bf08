"""How far the chains of a sampled posterior are, for whoever waits for them."""

from __future__ import annotations

import time
from typing import Final

from streaminfer.bus.protocol import Bus, BusError
from streaminfer.runtime import names
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.sampling import flat
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.draws import PHASES, Draws
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas

WORDS = {"setup": "read events and find their start", "warmup": "warm up", "draws": "draw", "done": "are done",
         "cut": "have lost events"}  # fmt: skip
"""What chains do in each phase."""


LOOK_S: Final = 1.0
"""Seconds between looks at the notes of samplers."""
MOST: Final = 100
"""Characters of a note that are shown."""


class Chains:
    """Follows the newest draws of each chain."""

    def __init__(self, spec: Spec, settings: Settings, bus: Bus, schemas: Schemas) -> None:
        self._spec, self._settings, self._bus = spec, settings, bus
        self._note, self._looked_at = "", -LOOK_S
        self._reader = DrawsReader(spec, settings, flat.size(spec.target.shapes), bus, schemas)
        self._newest: dict[int, Draws] = {}

    def poll(self) -> None:
        """Takes in what chains have said since the last call."""
        for unit, draws, _ in self._reader.poll(0.0):
            self._newest[unit] = draws

    def said(self, snapshot: Snapshot | None) -> str:
        """What the chain does that is least far in the newest segment; empty before there is one."""
        fixed = () if snapshot is None else sampled(snapshot).shown.segments
        if not fixed:
            return ""
        number = max(each.number for each in fixed)
        found = [self._newest.get(unit) for unit in range(self._settings.n_units)]
        here = [each for each in found if each is not None and each.segment >= number]
        what = f"segment {number}: {counted(self._settings.n_units, 'chain')}"
        if len(here) < len(found):
            note = self._noted()
            return f"{what} set up, {note}" if note else f"{what} {WORDS['setup']}"
        last = min(here, key=lambda each: (PHASES.index(each.phase), each.end))
        total = setting_up.n_steps(self._settings, last.thin, last.segment == 0)
        if last.phase == "done" and snapshot is not None and self._is_combining(snapshot):
            return f"{what} {WORDS[last.phase]}, their draws are combined"
        step = f", step {last.end:,} of {total:,}" if last.phase in {"warmup", "draws"} else ""
        return f"{what} {WORDS[last.phase]}{step}"

    def _noted(self) -> str:
        """What the first sampler that has a note says of its set-up."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return self._note
        self._looked_at = now
        try:
            kept = self._bus.committed(names.sampler_group(self._spec))
        except BusError:  # it may be read without the right to see groups
            kept = {}
        notes = [at.note for _, at in sorted(kept.items()) if at.note]
        self._note = "".join(each for each in notes[0][:MOST] if each.isprintable()) if notes else ""
        return self._note

    def _is_combining(self, snapshot: Snapshot) -> bool:
        return self._settings.combine is not None and not sampled(snapshot).shown.complete

    def close(self) -> None:
        self._reader.close()
