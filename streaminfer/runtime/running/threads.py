"""Threads of numerical libraries: one, as processes share the cores."""

from __future__ import annotations

import os
from typing import Final

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def pin_threads() -> None:
    """One BLAS thread a process, unless the environment says otherwise: to be called before numpy is loaded."""
    for name in THREADS:
        os.environ.setdefault(name, "1")
