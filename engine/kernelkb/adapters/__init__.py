"""Converts tasks of other projects to kernel folders, and runs theirs."""
