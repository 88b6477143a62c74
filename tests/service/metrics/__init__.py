"""What the gateway tells Prometheus of itself."""
