"""The methods of sampling by name and by what their targets read: the only place where they are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streaminfer.models.targets.reading import DOCUMENTS, reading_of
from streaminfer.sampling.chains.bright_data import FlyMc
from streaminfer.sampling.chains.full_data import Gibbs, Mala, Mh
from streaminfer.sampling.chains.gradient_methods import Sghmc, Sgld, Sgnht
from streaminfer.sampling.chains.kernel import Kernel
from streaminfer.sampling.chains.simplex import Sgrld
from streaminfer.sampling.chains.subset_methods import PoissonMh, SubsampledMh
from streaminfer.sampling.chains.topics import SgrldTopics

OF_NUMBERS: Final[Mapping[str, Kernel]] = {
    "mh": Mh(),
    "mala": Mala(),
    "gibbs": Gibbs(),
    "sgld": Sgld(),
    "sghmc": Sghmc(),
    "sgnht": Sgnht(),
    "sgrld": Sgrld(),
    "subsampled_mh": SubsampledMh(),
    "poisson_mh": PoissonMh(),
    "flymc": FlyMc(),
}
OF_DOCUMENTS: Final[Mapping[str, Kernel]] = {"sgrld": SgrldTopics()}


def kernel_for(method: str, target: Any) -> Kernel:
    """The kernel of a method that fits a target."""
    return (OF_DOCUMENTS if reading_of(target) is DOCUMENTS else OF_NUMBERS)[method]
