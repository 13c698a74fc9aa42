"""Records of past work: optimization sessions, and the database of measurements."""
