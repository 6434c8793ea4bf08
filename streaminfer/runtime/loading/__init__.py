"""Rows of files and of Python as events on a data topic."""
