"""The processes of the runners: start, environment, limits, pause, /proc."""
