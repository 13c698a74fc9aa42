"""The runner process: loads and calls the candidate. Imports shared modules only."""
