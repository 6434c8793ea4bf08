"""Batches of a broker to records, within bounds."""
