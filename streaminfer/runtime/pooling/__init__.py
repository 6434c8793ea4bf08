"""The master of a sampled posterior: it fixes segments, gathers the draws of all chains, and publishes snapshots."""
