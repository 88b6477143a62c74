"""The codecs of the console protocols beside what any program would need for the same octets.

Each dialect is a module of its own, with a class as `benchmark.Part` has it.
"""
