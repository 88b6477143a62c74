"""Analytics over logs whose contents are known by construction."""
