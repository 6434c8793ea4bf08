"""Samplers: Markov chains whose draws are of a posterior. Pure: arrays in, arrays out."""
