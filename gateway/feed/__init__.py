"""The stream of records that every front end consumes: a snapshot, then batches of changes.

Messages and their msgpack form are here, with the server and client of its Unix socket. A front end imports
this package and the model, never the inventory behind it.
"""
