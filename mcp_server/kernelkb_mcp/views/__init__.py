"""What a client reads: results, entries, pages of at most 8 kB, and the next call."""
