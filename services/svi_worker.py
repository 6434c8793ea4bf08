"""svi-worker: turns a share of the data partitions into expected statistics, for stochastic variational inference."""

from __future__ import annotations

from streaminfer.services.svb_worker import build

__all__ = ["build"]
