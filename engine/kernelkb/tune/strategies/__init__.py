"""Strategies that propose the next configuration, and the model that they share."""
