"""How fast it is, beside the bare limit and the peers: `make bench`."""
