"""What runs in a child process, next to torch and the candidate's code.

The child may be another Python than ours (KB_PYTHON), with none of our dependencies: these modules
import the standard library and torch, and nothing of ours but each other.
"""
