"""Measuring in a process of its own: what is due, the child that does it, and the events that it reads."""
