"""Models of queues: how long one waits (`waiting`), how many come (`visits`)."""
