"""The one stream that every front end consumes: a snapshot, then change batches.

Messages and their msgpack form are here, with the server and client of its Unix socket. A front end imports
this package and the model, never the inventory behind it.
"""
