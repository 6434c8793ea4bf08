"""One file for each method. It has `init`, `step`, which is its formula, and `steps`, which is a block of steps."""
