"""The verb that drafts a kernel.yaml from a source file or an observed run."""
