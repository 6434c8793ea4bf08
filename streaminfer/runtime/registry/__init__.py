"""A schema registry with the Confluent API: where it is, talking to it, what it says of a schema."""
