"""CML (Console Markup Language) of 2006, as its documents have it and as OpenAMQ speaks it: the codec.

The codec converts message bodies to the frozen messages of `messages` and back. There are two spellings, see
`messages.Spelling`: both are recognised when read, and the client chooses which is written. Values are
text here, as encoded; `schema` and `values` convert them to the model's. No I/O of any kind.
"""
