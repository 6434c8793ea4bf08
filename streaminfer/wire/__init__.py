"""Bytes to typed values and back, once, at the edge. Every byte from outside is bounded and checked here."""
