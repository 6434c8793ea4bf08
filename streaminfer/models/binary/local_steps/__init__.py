"""Local steps of regressions of a 0/1 target: what the events of a minibatch add to the posterior of the weights.

Each event becomes a Gaussian *site*, a factor exp(h a - t a^2 / 2), a = w · x, that stands for its likelihood. A
likelihood is a `links.Link` of the margin z = s a, s = 1 or -1 as the target is 1 or 0. All of them are log-concave, so
no site has a negative precision t. The local step `bound` is a model of its own, `logistic_bound`.
"""
