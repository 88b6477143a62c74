"""Pages and tables of the documentation that are written from what the code follows."""
