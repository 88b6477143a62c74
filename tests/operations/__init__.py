"""Tests of `gateway.operations`: requests, sources and time in any order, without I/O."""
