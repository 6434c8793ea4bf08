"""Models with exact posteriors."""
