"""Peers of the gateway that only tests need: the other side of dialects that the product does not serve.

They are sessions without I/O, as those of the product; `tests/components/` runs them on real links.
"""
