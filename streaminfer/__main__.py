"""The `streaminfer` command."""

from __future__ import annotations

import sys

from streaminfer.runtime import ending
from streaminfer.runtime.threads import pin_threads


def main() -> None:
    ending.install()
    pin_threads()
    from streaminfer.cli import main as command

    sys.exit(command(sys.argv[1:]))


if __name__ == "__main__":
    main()
