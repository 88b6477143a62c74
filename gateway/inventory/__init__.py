"""What exists, under which lasting identity, and what changed: observations in, feed records out.

One writer per source. Identities (`identity`, `instances`) are the part that can never be mended once
published: rows and names of durable objects outlive every restart. No socket and no dialect belong here.
"""
