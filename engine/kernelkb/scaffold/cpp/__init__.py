"""C++ and CUDA sources: what they say, and a draft of it."""
