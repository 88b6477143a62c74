"""Serving roles: they publish the objects of a source to consoles, in the place of an agent."""
