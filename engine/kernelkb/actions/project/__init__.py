"""The project, its kernels and the compiled knowledge, as every verb finds them."""
