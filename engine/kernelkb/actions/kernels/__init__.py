"""Verbs on a kernel: build, check, bench, profile, triage; tasks of other projects."""
