"""Child processes: supervisor, sandboxes, device queue, progress, worker jobs."""
