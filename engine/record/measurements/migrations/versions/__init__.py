"""One file for each revision; those that were released never change."""
