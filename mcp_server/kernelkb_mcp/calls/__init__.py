"""What a call of any tool is made of: arguments, jobs, progress, errors, resources."""
