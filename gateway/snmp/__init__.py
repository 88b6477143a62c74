"""The SNMP front end: an agent that answers from a store of encoded values, patched by the feed.

The package has BER, the store, the request path, MIB texts and the projection of the feed onto tables. It
knows no dialect, broker or source of a policy: it imports the model, the feed and the mapping only.
"""
