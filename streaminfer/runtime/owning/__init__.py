"""Owning state on the log: fence the predecessors, restore, verify, and commit everything at once."""
