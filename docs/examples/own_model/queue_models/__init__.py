"""Models of queues: how long customers wait (`waiting`), and how many come (`visits`)."""
