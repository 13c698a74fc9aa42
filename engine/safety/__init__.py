"""Guards: paths, the workspace, compiler flags, and text that other programs wrote."""
