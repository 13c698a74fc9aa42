"""Jobs without a verdict: probe the machine, describe a task, repeat calls for a profiler."""
