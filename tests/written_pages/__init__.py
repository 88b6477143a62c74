"""Pages and tables of the documentation that are written from tables of the code."""
