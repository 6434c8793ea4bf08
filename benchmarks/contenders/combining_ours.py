"""Our combiners on draws in memory, one thread."""

from __future__ import annotations

import resource
import time
from contextlib import suppress

import numpy as np

from benchmarks.combiner_task import Told, Work, received, tell
from streaminfer.combining.part import Options, Part, Refused
from streaminfer.combining.table import combiner


def main(work: Work) -> Told:
    parts = [Part(values, None, float(work.t)) for values in work.draws()]
    few = [Part(part.values[: 4 * work.d], None, 4.0 * work.d) for part in parts[:2]]
    combiner("average")(few, np.random.default_rng(1), Options())  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng, options = np.random.default_rng(1), Options(n=work.n, gradient=lambda theta: -work.j * theta)
    began = time.perf_counter()
    with suppress(Refused):  # the time to find that out counts
        combiner(work.by)(parts, rng, options)
    seconds = time.perf_counter() - began
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return Told(seconds, 1 + more / (8 * work.j * work.t * work.d))


if __name__ == "__main__":
    tell(main(received()))
