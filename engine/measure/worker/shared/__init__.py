"""What judge and runner processes share: messages, shared memory, failures."""
