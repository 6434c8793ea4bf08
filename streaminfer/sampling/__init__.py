"""Samplers: Markov chains whose draws are of a posterior. Pure: arrays in, arrays out.

One file for each method. A method has `init`, `step`, which is its formula, and `steps`, which is a block of steps.
"""
