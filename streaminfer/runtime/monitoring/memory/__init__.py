"""What the monitor remembers of a posterior, bounded: one thread writes it, those that answer read it."""
