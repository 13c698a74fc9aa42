"""The arrays that a runner reads and writes, their marks and faults."""
