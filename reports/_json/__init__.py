"""The parts of the JSON report."""
