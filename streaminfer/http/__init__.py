"""The HTTP API and the page of the monitor: answers from memory, never from the bus."""
