"""One small composition root for each microservice, in an explicit table. `up` starts them in this order."""

from __future__ import annotations

from typing import Final

from streaminfer.runtime.role import Role, Roles
from streaminfer.services import combiner, master, sampler, worker

ROLES: Final[Roles] = {role.name: role for role in (master.ROLE, combiner.ROLE, worker.SVB, worker.SVI, sampler.ROLE)}

__all__ = ["ROLES", "Role"]
