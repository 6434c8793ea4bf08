"""What is answered, by subject: posterior, keys, draws, predictions, streams, probes."""
