"""The policy: roles that grant or deny reading, changing, invoking and subscribing to principals.

`rules` has the model, `decisions` decides one question, and `tables` compiles the same rules to the tables by
which front ends decide what each principal reads. docs/roles.md describes it for users.
"""
