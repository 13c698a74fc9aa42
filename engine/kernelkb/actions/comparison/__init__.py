"""Two profiles side by side: launches, lines, counters, verdicts."""
