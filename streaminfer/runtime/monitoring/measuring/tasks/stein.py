"""How far the posterior is from what it should be, as one number in posterior sds: the kernel Stein discrepancy."""

from __future__ import annotations

from streaminfer.measuring.densities import density_of
from streaminfer.measuring.stein import kernel
from streaminfer.measuring.values import of_kernel
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found


def run(context: Context) -> Found:
    theta, evidence = context.theta, context.evidence
    own = density_of(context.posterior, context.target).density
    scores = context.score.gradient(theta)
    found = kernel.measure(theta, scores, drawn_from=None if own is None else own.gradient(theta))
    return Found(of_kernel(found), evidence.target, len(theta), evidence.gathered.n, evidence.base_version)
