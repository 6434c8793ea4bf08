"""The methods of sampling by name: the only place where they are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.sampling.chains.full_data import Gibbs, Mala, Mh
from streaminfer.sampling.chains.gradient_methods import Sghmc, Sgld, Sgnht
from streaminfer.sampling.chains.kernel import Kernel
from streaminfer.sampling.chains.simplex import Sgrld

KERNELS: Final[Mapping[str, Kernel]] = {
    "mh": Mh(),
    "mala": Mala(),
    "gibbs": Gibbs(),
    "sgld": Sgld(),
    "sghmc": Sghmc(),
    "sgnht": Sgnht(),
    "sgrld": Sgrld(),
}
