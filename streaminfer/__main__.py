"""The `streaminfer` command."""

from __future__ import annotations

import sys

from streaminfer.runtime import ending
from streaminfer.runtime.threads import pin_threads


def main() -> None:
    ending.install()
    pin_threads()
    from streaminfer.cli import main as command

    try:
        code = command(sys.argv[1:])
    except BaseException:
        if not ending.asked.yes:
            raise
    sys.exit(ending.CODE if ending.asked.yes else code)


if __name__ == "__main__":
    main()
