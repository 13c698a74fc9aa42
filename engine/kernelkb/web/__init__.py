"""The page of ``kb web``: templates over the answers that the command line and the server give."""
