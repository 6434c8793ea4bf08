"""A member's data partitions as minibatches of checked events, with bad events, passes and losses."""
