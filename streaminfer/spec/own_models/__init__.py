"""Classes of the user's own: found, and checked before anything runs."""
