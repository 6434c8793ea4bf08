"""The parts of the embedded bus, one SQLite file shared by several processes."""
