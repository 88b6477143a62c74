"""QMF AM2: codec and sessions."""
