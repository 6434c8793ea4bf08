"""Files that a spec names. They are below its folder, so a spec of others cannot look at what they may not read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaminfer.models.options import OptionsError

VARIABLE: Final = "STREAMINFER_SPEC_FILES"
ANYWHERE: Final = "anywhere"


def named(folder: Path, file: str, option: str, rule: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The path of a file that an option of a spec in a folder names; raises OptionsError, which says nothing of it."""
    path = folder / file
    if environ.get(VARIABLE) != ANYWHERE and not path.resolve().is_relative_to(folder.resolve()):
        outside = f"must be below the folder of the spec, unless {VARIABLE}={ANYWHERE} is set"
        raise OptionsError(option, outside, file)
    if not path.is_file():
        raise OptionsError(option, f"{rule}, and {path} is not a file", file)
    return path


def unreadable(option: str, file: str, error: OSError | ValueError) -> OptionsError:
    """The error of a file that is not text, or may not be read."""
    why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
    return OptionsError(option, f"names a file that cannot be read as text: {why}", file)
