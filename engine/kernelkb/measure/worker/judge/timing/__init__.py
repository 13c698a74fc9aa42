"""One runner's calls timed: batches, pairs, separate calls, peak memory."""
