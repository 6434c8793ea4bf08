"""One small composition root for each microservice, in an explicit table."""

from __future__ import annotations

from typing import Final

from streaminfer.runtime.service import Builder
from streaminfer.services import master, svb_worker, svi_worker

SERVICES: Final[dict[str, Builder]] = {
    "svb-worker": svb_worker.build,
    "svi-worker": svi_worker.build,
    "master": master.build,
}
