"""A member's data partitions as minibatches of checked events, with passes and losses."""
