"""Estimates of gradients from minibatches, and sizes of steps that suit their noise."""
