"""Read foreign source text and draft a kernel.yaml for it (``kb init``). Parses; never compiles."""
