"""All services of a spec as processes, and when they are done."""
