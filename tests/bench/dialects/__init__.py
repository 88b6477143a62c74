"""The codecs of the console protocols beside the minimum that any program needs for the same octets.

Each dialect is a module of its own, with a class that implements `benchmark.Part`.
"""
