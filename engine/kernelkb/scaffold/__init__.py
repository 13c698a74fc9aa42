"""Reads kernel sources and drafts a kernel.yaml and a launcher for them (``kb init``)."""
