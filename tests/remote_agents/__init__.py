"""Agents beside a broker's own, on a live RabbitMQ, as an operator sees them."""
