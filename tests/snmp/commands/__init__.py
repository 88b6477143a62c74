"""The command table: methods called by SET."""
