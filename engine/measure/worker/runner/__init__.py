"""The runner process: loads and calls the candidate. Never imports the judge."""
