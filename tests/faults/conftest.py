"""Fixtures of the tests that run real processes."""

from __future__ import annotations

from tests.faults.buses import bus_url
from tests.faults.programs import programs

__all__ = ["bus_url", "programs"]
