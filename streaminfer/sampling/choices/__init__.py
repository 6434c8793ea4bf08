"""What a spec may choose for a sampler: its methods, their options, defaults, and whether they fit a target."""
