"""The `streaminfer` command."""

from __future__ import annotations

import os
import sys

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def pin_threads() -> None:
    """One BLAS thread a process, unless the environment says otherwise: to be called before numpy is loaded."""
    for name in THREADS:
        os.environ.setdefault(name, "1")


def main() -> None:
    pin_threads()
    from streaminfer.cli import main as command

    sys.exit(command(sys.argv[1:]))


if __name__ == "__main__":
    main()
