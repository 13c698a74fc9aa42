"""Jobs without a verdict: probe the machine, inspect a task, call a candidate for a profiler."""
