"""Tests of the policy of roles."""
