"""The SNMP front end: an agent that answers from a store of encoded values, patched by the feed.

Here belong BER, the store, the request path, MIB texts and the projection of the feed onto tables. Nothing
here knows a dialect, a broker or a policy's source: it imports the model, the feed and the mapping only.
"""
