"""Records to text, for a terminal and for an assistant."""
