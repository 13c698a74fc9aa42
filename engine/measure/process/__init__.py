"""Child processes: supervisor, subprocesses, device queue, sandboxes, jobs for the worker."""
