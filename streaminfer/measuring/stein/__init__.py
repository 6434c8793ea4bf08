"""Distances of draws from a posterior by its scores alone: kernel and graph Stein discrepancies, and thinning."""
