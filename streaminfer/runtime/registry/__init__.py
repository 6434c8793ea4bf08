"""A schema registry with the Confluent API: its address, requests to it, what it says of a schema."""
