"""Says how good a posterior is, and whether its services live: beats, measurements, and the service that has both."""
