"""Regressions of 0/1 targets."""
