"""YAML files to checked records."""
