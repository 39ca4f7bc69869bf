"""The parts of the report for Perfetto."""
