"""Records of samplers and combiners: draws, states, questions and answers."""
