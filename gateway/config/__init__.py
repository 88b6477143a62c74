"""The configuration: one strict YAML file, found in a known place, with every complaint at its line."""
