"""Continuously updated Bayesian posteriors from event streams.

    from streaminfer import load_spec, connect, fit

Names are loaded when they are first used: the command line sets the number of BLAS threads before numpy comes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaminfer.combining.api import combine
    from streaminfer.runtime.api.connection import Connection, connect
    from streaminfer.runtime.api.fit import fit
    from streaminfer.runtime.api.frames import RowError
    from streaminfer.runtime.api.keyed_posteriors import KeyedPosteriors
    from streaminfer.runtime.api.snapshot import PosteriorSnapshot
    from streaminfer.spec import Spec, SpecError, load_spec, parse_spec

__version__ = "0.1.0"

_HOMES = {
    "Connection": "streaminfer.runtime.api.connection",
    "KeyedPosteriors": "streaminfer.runtime.api.keyed_posteriors",
    "PosteriorSnapshot": "streaminfer.runtime.api.snapshot",
    "RowError": "streaminfer.runtime.api.frames",
    "Spec": "streaminfer.spec",
    "SpecError": "streaminfer.spec",
    "combine": "streaminfer.combining.api",
    "connect": "streaminfer.runtime.api.connection",
    "fit": "streaminfer.runtime.api.fit",
    "load_spec": "streaminfer.spec",
    "parse_spec": "streaminfer.spec",
}

__all__ = [
    "Connection",
    "KeyedPosteriors",
    "PosteriorSnapshot",
    "RowError",
    "Spec",
    "SpecError",
    "combine",
    "connect",
    "fit",
    "load_spec",
    "parse_spec",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'streaminfer' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
