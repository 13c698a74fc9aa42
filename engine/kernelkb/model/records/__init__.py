"""What is measured and kept: runs, attempts, sessions, outcomes."""
