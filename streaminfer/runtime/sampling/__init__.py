"""Chains on the bus: the events of a segment as rows in a file, units that are owned, and the service of both."""
