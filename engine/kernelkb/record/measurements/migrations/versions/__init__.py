"""Database revisions, one file each; the file of a released revision never changes."""
