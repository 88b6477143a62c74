"""Codecs by golden vectors and hostile bytes, sessions by playbooks."""
