"""Records of some topics in a file, and such a file as a bus that can be read only."""
