"""Code of the child processes that load torch: the judge, the runners, and jobs without a verdict.

Their interpreter may be another one than ours (KB_PYTHON), without our dependencies: these modules
import the standard library, torch, and each other.
"""
