"""The codec of QMF before AM2."""
