"""Machine code of NVIDIA GPUs (SASS) as data: instructions, control bits, control flow, producers.

Nothing here reads files or runs programs.
"""
