"""The worker: minibatches to increments."""
