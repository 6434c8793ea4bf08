"""What a child does with a request: check after check, each an answer, whatever happens."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

from streaminfer.bus.protocol import Bus, BusError
from streaminfer.measuring.judging import checks
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.measurement import Measurement, unknown
from streaminfer.measuring.published import Published
from streaminfer.models.model import DomainError
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found
from streaminfer.runtime.monitoring.measuring.messages import Request
from streaminfer.runtime.monitoring.measuring.moments import moment_of
from streaminfer.runtime.monitoring.measuring.pacing import used_here
from streaminfer.runtime.monitoring.measuring.tasks.table import TASKS, Task
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec
from streaminfer.wire import measurements

log = logging.getLogger(__name__)


class Working:
    """On a bus of its own. `writer` is the monitor that publishes what comes out."""

    def __init__(self, spec: Spec, bus: Bus, writer: str) -> None:
        self._spec, self._bus, self._writer = spec, bus, writer
        self._schemas = schemas.prepare(spec, bus, "monitor")

    def measured(self, request: Request) -> Iterator[tuple[bytes, bytes]]:
        """A record of the topic `metrics` for each check, in their order."""
        context = Context(self._spec, self._bus, self._schemas, request.snapshot, request.older)
        for check in request.checks:
            found, base_version = measured(TASKS[check], context)
            moment, now = moment_of(request.snapshot, base_version), round(1000 * time.time())
            published = Published(self._spec.fingerprint, self._writer, now, moment, found)
            yield measurements.encode(published, self._bus.max_record_bytes)


def measured(task: Task, context: Context) -> tuple[Measurement, int]:
    """One check, and the version of the older snapshot that it needed; what cannot be told is unknown."""
    before = used_here()
    base_version = 0
    try:
        found = task.run(context)
        made, base_version = _judged(task, context, found), found.base_version
    except Unknowable as error:
        made = unknown(task.check, error.sentence, error.remedy, task.subject)
    except DomainError as error:
        made = unknown(task.check, f"The posterior cannot be measured: {error}.", subject=task.subject)
    except BusError as error:
        log.warning("%s: %s", task.check, error)
        made = unknown(task.check, "The bus did not answer.", "It is tried again later.", task.subject)
    except MemoryError:
        made = unknown(task.check, "It takes more memory than there is.", "Make monitor.events smaller.", task.subject)
    except Exception:  # a user's own model may raise anything, and the other checks are to go on
        log.exception("the check %s failed", task.check)
        made = unknown(task.check, "The check has failed; the monitor's log says why.", subject=task.subject)
    return replace(made, seconds=used_here() - before, seed=context.seed), base_version


def _judged(task: Task, context: Context, found: Found) -> Measurement:
    """With what its values mean."""
    made = Measurement(
        task.check, "unknown", "It was not judged.", "", task.subject, found.target, found.n_draws, found.n_data,
        values=found.values, curves=found.curves,
    )  # fmt: skip
    return checks.judged(made, context.spec.monitor)
