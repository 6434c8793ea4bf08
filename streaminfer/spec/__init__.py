"""The spec: one file that says what is inferred."""

from streaminfer.spec.data import Data
from streaminfer.spec.load import SpecError, load_spec, parse_spec
from streaminfer.spec.schema import json_schema
from streaminfer.spec.spec import Spec
from streaminfer.spec.warnings import warnings_of
from streaminfer.variational.settings import Drift, Inference, Reaction
from streaminfer.variational.steps import StepSize

__all__ = [
    "Data",
    "Drift",
    "Inference",
    "Reaction",
    "Spec",
    "SpecError",
    "StepSize",
    "json_schema",
    "load_spec",
    "parse_spec",
    "warnings_of",
]
