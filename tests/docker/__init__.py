"""The container files: their contents, and, as far as possible without a container engine, their effects."""
