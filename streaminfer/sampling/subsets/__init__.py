"""Decisions of Metropolis–Hastings from some of the events: proxies, subsets, stopping rules, and their errors."""
