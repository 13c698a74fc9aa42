"""The judge process: inputs, reference, comparison, clock. The candidate's code never runs here."""
