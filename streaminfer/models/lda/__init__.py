"""Documents, words and the model of topics."""
