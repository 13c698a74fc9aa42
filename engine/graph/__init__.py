"""The decision graph. The only package that imports networkx."""
