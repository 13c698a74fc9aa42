"""The judge process: inputs, reference, comparison, clock. Never runs candidate code."""
