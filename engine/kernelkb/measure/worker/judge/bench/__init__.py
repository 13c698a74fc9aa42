"""A whole bench: trials, pairs until the interval is narrow, resources used."""
