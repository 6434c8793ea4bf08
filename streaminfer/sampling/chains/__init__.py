"""One Markov chain on one segment of the data: set up, warmed up, drawn from, block by block."""
