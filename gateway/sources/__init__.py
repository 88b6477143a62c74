"""Sources that speak no management protocol: they read a product's own interfaces, and give observations.

The decisions do no I/O. Observations go to the inventory, as those of any other source do.
"""
