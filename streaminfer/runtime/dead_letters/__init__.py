"""Events that could not be absorbed: written, listed, counted, sent again."""
