"""Lint of files that load: is the knowledge complete, reachable, used, and true to its cases?"""
