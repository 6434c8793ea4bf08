"""Variational methods: from a base posterior and events to increments, from increments to a posterior."""
