"""Measures how good a posterior is: draws and scores in, numbers with standard errors out. Pure."""
