"""The targets of the models, one file each, and what several of them share."""
