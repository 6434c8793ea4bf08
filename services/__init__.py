"""One small composition root for each microservice, in an explicit table. `up` starts them in this order.

What a service is made of is loaded when it is built: a process has one of them, and starts in two thirds of the time.
"""

from __future__ import annotations

from typing import Final

from streaminfer.runtime.role import Role, Roles
from streaminfer.services import combiner, master, monitor, sampler, worker

ROLES: Final[Roles] = {
    role.name: role for role in (master.ROLE, combiner.ROLE, worker.SVB, worker.SVI, sampler.ROLE, monitor.ROLE)
}

__all__ = ["ROLES", "Role"]
