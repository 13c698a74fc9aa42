"""Everything with side effects on a real machine: build, check, bench, profile."""
