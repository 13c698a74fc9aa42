"""A bench: trials, batches and pairs until the interval is narrow, calls alone, resources used."""
