"""The container files: what they promise, and, as far as it goes without a container engine, what they do."""
