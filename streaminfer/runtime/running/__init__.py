"""A process that runs a service: its loop, end, health and patience with the bus."""
