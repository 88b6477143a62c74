"""The wheel and the source distribution: what is in them, and that they are all that a gateway takes."""
