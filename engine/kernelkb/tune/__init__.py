"""Searches the configurations of a tunable variant: space, search strategies, replay."""
