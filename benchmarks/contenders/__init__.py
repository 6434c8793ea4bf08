"""Programs that do the same work, each as a process of its own: `python -m benchmarks.contenders.NAME`."""
