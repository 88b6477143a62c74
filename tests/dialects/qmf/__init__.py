"""Tests of QMF: the codec and the sessions of AM2, and those of its earlier revisions."""

import pytest

pytest.register_assert_rewrite("tests.dialects.qmf.playbook")
