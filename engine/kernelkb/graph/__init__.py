"""Builds the knowledge as a graph, searches it, draws it, and compiles it to rules.

The only package that imports networkx.
"""
