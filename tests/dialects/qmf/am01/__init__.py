"""Tests of QMF before AM2: the codec and the sessions."""
