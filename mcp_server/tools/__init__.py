"""One tool a module: the wording of its arguments, and one call into ``kernelkb.actions``."""
