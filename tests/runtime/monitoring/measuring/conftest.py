"""The buses that audits are checked on."""

from tests.faults.buses import bus_url

__all__ = ["bus_url"]
