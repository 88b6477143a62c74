"""Tests of AMI: the codec between lines and instructions, and the relay session."""
