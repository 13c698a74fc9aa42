"""What an answer holds: advice, facts of a report, comparisons."""
