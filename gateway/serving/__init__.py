"""Serving roles: what publishes the objects of a source to consoles, in the place of an agent."""
