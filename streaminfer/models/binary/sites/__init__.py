"""Gaussian sites: the factors exp(h a - t a^2 / 2), a = w · x, that stand for the likelihood of 0/1 events.

A likelihood is a `links.Link` of the margin z = s a, s = 1 or -1 as the target is 1 or 0. All of them are log-concave,
so no site has a negative precision t.
"""
