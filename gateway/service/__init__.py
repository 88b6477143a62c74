"""The composition root: processes and the parts of each. Only commands and the demonstration import it."""
