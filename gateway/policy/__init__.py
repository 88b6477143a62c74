"""The policy: roles that grant reading, changing, invoking and subscribing to principals, and explicit denies.

`rules` has the model, `decisions` decides one question, and `tables` compiles the same rules to the tables by
which front ends decide what each principal reads. docs/roles.md describes it for users.
"""
