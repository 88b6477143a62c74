"""The wheel and the source distribution: their contents, which are all that a gateway needs."""
