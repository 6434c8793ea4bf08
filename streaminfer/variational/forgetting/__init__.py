"""How old events lose their weight: half-lives and windows, and which times are believed."""
