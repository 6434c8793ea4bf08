"""What measurements mean: each check's question, its limits, and the verdict."""
