"""What a candidate is compared with: rivals started, ranked and kept fair."""
