"""The draws of all chains together: gathered, pooled, and shown as one posterior."""
