"""Frozen pydantic records of knowledge and measurements. No I/O; import the submodule you need.

One module for each kind of file or result, however short: its name is the file's.
"""
