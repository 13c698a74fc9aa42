"""Generated documents: quick reference, guide, skill, commands, entries."""
