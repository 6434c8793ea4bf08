"""Who may ask, and how much: hosts, tokens, limits of connections and requests."""
