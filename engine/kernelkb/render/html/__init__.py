"""Pages of HTML: reports and tuning runs."""
