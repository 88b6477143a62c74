"""Tests of the codecs by golden vectors and hostile bytes, and of the sessions by playbooks."""
