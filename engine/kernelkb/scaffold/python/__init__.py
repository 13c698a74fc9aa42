"""Python and Triton sources: what they say, and a draft of it."""
