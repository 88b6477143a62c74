"""The one stream that every north consumes: a snapshot, then change batches.

Messages and their msgpack form are here, with the server and client of its Unix socket. A north imports
this package and the model, never the inventory behind it.
"""
