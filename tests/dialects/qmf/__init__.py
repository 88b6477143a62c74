"""QMF AM2: codec and sessions."""

import pytest

pytest.register_assert_rewrite("tests.dialects.qmf.playbook")
