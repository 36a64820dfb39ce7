"""What operators deploy beside their workers, built from the catalogue of metrics."""
