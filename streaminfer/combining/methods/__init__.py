"""One combiner a file, all with the same signature: parts, randomness, options."""
