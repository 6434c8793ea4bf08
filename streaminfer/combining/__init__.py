"""Combiners: draws of subposteriors become draws of the posterior; pure, arrays in and arrays out."""
