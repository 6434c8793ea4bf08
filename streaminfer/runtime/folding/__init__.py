"""The master: increments to snapshots."""
