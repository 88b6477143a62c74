"""Durable subscriptions of the whole gateway, at a real RabbitMQ."""
