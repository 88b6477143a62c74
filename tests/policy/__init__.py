"""Tests of the policy of roles."""

import pytest

pytest.register_assert_rewrite(
    "tests.policy.front_ends", "tests.policy.jmx_front_end", "tests.policy.snmp_front_end"
)
