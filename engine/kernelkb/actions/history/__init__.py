"""What was measured before: records, attempts, outcomes of changes."""
