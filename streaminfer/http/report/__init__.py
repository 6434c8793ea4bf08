"""A report of a posterior: one HTML file that needs nothing else, with pictures drawn here."""
