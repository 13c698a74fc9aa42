"""Sessions: start, log, brief, close, and what is learned from them."""
