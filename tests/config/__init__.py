"""Configuration files and the state folder."""
