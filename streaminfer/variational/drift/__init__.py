"""An anytime-valid test of falling scores, and what follows an alarm."""
