"""The inventory: objects, their lasting identities and their changes; observations in, feed records out.

One writer per source. Identities (`identity`, `instances`) are the part that cannot be corrected once
published: rows and names of durable objects outlive every restart. No socket and no dialect belong here.
"""
