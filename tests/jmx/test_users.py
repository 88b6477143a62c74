"""The login of users."""

from __future__ import annotations

from pydantic import SecretStr

from gateway.jmx.backend import Users

USERS = Users({"monitor": SecretStr("right"), "other": SecretStr("ö")})


async def test_a_user_with_the_right_password() -> None:
    assert await USERS.authenticate("monitor", "right")
    assert await USERS.authenticate("other", "ö")


async def test_no_other_user() -> None:
    for user, password in [
        ("monitor", "wrong"),
        ("monitor", ""),
        ("monitor", "ö"),
        ("nobody", "right"),
        ("", ""),
        ("monitor", "\ud800"),
    ]:
        assert not await USERS.authenticate(user, password)


def test_no_password_is_in_what_is_printed() -> None:
    assert "right" not in repr(vars(USERS))
