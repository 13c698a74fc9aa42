"""Defines the records of knowledge and measurements: frozen pydantic classes without I/O.

Each kind of file or result has a module of its own, named after it; import the one you need.
"""
