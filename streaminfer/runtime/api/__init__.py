"""What users of Python have: a connection, `fit`, snapshots as objects, predictions."""
