"""Tasks of other projects, as they describe them."""
