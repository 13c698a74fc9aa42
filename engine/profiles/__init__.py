"""Reports of other tools → metrics by our names."""
