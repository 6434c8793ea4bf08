"""Latent Dirichlet allocation (Blei, Ng, Jordan 2003; online: Hoffman, Blei, Bach 2010).

theta_d ~ Dirichlet(alpha) for each document, beta_k ~ Dirichlet(concentration) over the V words for each of K topics.
Every word of a document is drawn from beta_z of a topic z ~ theta_d. q(beta_k) = Dirichlet(lambda_k),
q(theta_d) = Dirichlet(gamma_d), and phi are the probabilities of a word's topic.

A minibatch has few of the words, so nothing here asks for more than the rows of those and the totals over all words.
"""
