"""The parts of the Kafka bus, one concept a file."""
