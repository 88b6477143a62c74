"""CML (Console Markup Language) of 2006, as its documents have it and as OpenAMQ speaks it: the codec.

The codec turns message bodies into the frozen messages of `messages` and back. There are two spellings, see
`messages.Spelling`: both are read without asking which, and the client says which is written. Values are
text here, as they travel; `schema` and `values` turn them into the model's. No I/O of any kind.
"""
