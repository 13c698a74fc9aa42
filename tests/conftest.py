"""Fixtures that every test folder may use."""
