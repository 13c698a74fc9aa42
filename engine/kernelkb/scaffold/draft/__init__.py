"""What every draft is made of: signature, launcher, reference, kernel.yaml."""
