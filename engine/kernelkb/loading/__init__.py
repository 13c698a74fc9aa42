"""Reads YAML files and kernel folders into validated records."""
