"""Reading the posterior topic: the newest complete snapshot, of one shard, of all, of a key."""
