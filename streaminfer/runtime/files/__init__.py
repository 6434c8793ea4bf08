"""Posteriors as files: the newest snapshot for those who predict from it, and backups."""
