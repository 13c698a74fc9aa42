"""What a kernel.yaml and a task of another project hold."""
