"""Our combiners on draws in memory, one thread."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np

from benchmarks.combiner_task import Told, Work, received, tell
from streaminfer.combining.part import Options, Part, Refine, Refused
from streaminfer.combining.table import combiner
from streaminfer.models.model import Matrix, Vector


def main(work: Work) -> Told:
    parts = [Part(values, None, float(work.t)) for values in work.draws()]
    few = [Part(part.values[: 4 * work.d], None, 4.0 * work.d) for part in parts[:2]]
    combiner("average")(few, np.random.default_rng(1), Options())  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mean, variance = work.posterior()
    options = Options(n=work.n, gradient=lambda theta: (mean - theta) / variance, refine=_refine(work))
    rng, found = np.random.default_rng(1), None
    began = time.perf_counter()
    with suppress(Refused):  # the time to find that out counts
        found = combiner(work.by)(parts, rng, options)
    seconds = time.perf_counter() - began
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    told = Told(seconds, 1 + more / (8 * work.j * work.t * work.d))
    if found is None:
        return told
    off = float(np.sqrt(((found.mean - mean) ** 2 / variance).mean()))
    return replace(told, off=off, width=float(np.sqrt(np.diag(found.cov) / variance).mean()))


def _refine(work: Work) -> Refine:
    """The answers of those who hold the data, without a bus between: draws of N(xi | theta, v) f_j(xi)."""
    means, variances = work.known()

    def refine(j: int, theta: Matrix, xi: Matrix, variance: Vector, rng: np.random.Generator) -> Matrix:
        del xi
        pull = variances[j] / (variances[j] + variance)
        noise = np.sqrt(pull * variance) * rng.standard_normal(theta.shape)
        return np.asarray(pull * theta + (1 - pull) * means[j] + noise, dtype=np.float64)

    return refine


if __name__ == "__main__":
    tell(main(received()))
