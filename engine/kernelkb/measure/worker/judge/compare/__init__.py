"""Whether an output is right: oracles, limits of the error, what is wrong with it."""
