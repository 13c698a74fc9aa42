"""What a job tells its worker: cases, references, runners, policies."""
