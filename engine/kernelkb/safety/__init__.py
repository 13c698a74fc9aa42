"""Input guards: workspace paths, compiler flags, and text from other programs."""
