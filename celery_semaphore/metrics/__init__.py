"""Count what happens in a worker, and expose figures to Prometheus and OpenTelemetry."""
