"""Exponential families: one module each, all with the functions of `family.Family`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.families import (
    beta,
    diagonal_gaussian,
    dirichlet,
    gamma,
    gaussian,
    mixture,
    normal_inverse_gamma,
    normal_inverse_wishart,
)
from streaminfer.families.family import Family

FAMILIES: Final[Mapping[str, Family]] = {
    "beta": beta,
    "diagonal-gaussian": diagonal_gaussian,
    "dirichlet": dirichlet,
    "dirichlet-normal-inverse-wishart": mixture,
    "gamma": gamma,
    "gaussian": gaussian,
    "normal-inverse-gamma": normal_inverse_gamma,
    "normal-inverse-wishart": normal_inverse_wishart,
}
