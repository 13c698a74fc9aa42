"""Modules of both judge and runner: messages, shared memory, failures, imports of files."""
