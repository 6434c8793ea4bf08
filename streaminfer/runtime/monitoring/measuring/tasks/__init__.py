"""The checks that are measured, one file for each kind, and the table of them."""
