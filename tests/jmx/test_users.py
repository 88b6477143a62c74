"""The login of users, whose passwords may change and may be hashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.jmx.password_hashes import check_hash, make_hash, matches
from gateway.jmx.users import PasswordError, Users, check_stored, is_hash

HASH = "$argon2id$v=19$m=19456,t=2,p=1$93hyigMaFsVvUIrlg1BbGQ$HeIt6T9FdRpMPoenLzloPugH6V0MSOP2hEzzhDjEi1o"
"""Of the password ``hashed``."""


def users(**passwords: str) -> Users:
    return Users({name: constant(text) for name, text in passwords.items()})


def constant(text: str) -> Callable[[], SecretStr]:
    return lambda: SecretStr(text)


USERS = users(monitor="right", other="ö")
HASHED = users(monitor=HASH)


async def test_a_user_with_the_right_password() -> None:
    assert await USERS.authenticate("monitor", "right")
    assert await USERS.authenticate("other", "ö")


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("monitor", "wrong"),
        ("monitor", ""),
        ("monitor", "ö"),
        ("nobody", "right"),
        ("nobody", "hashed"),
        ("", ""),
        ("monitor", "\ud800"),
    ],
)
@pytest.mark.parametrize("known", [USERS, HASHED])
async def test_no_other_user(known: Users, user: str, password: str) -> None:
    assert not await known.authenticate(user, password)


async def test_a_hash_is_of_one_password_and_no_password_itself() -> None:
    for _ in range(2):
        assert await HASHED.authenticate("monitor", "hashed")
        assert not await HASHED.authenticate("monitor", HASH)
        assert not await HASHED.authenticate("monitor", "hashe")


async def test_a_changed_password_counts_at_once() -> None:
    stored = ["first"]
    changing = Users({"monitor": lambda: SecretStr(stored[0])})
    assert await changing.authenticate("monitor", "first")
    for text in (HASH, make_hash("second"), "third"):
        stored[0] = text
        assert not await changing.authenticate("monitor", "first")
    assert await changing.authenticate("monitor", "third")
    stored[0] = HASH
    assert await changing.authenticate("monitor", "hashed")
    stored[0] = make_hash("another")
    assert not await changing.authenticate("monitor", "hashed")


async def test_a_password_that_cannot_be_read_is_an_error_and_none_that_counted_before_is_used() -> None:
    stored: list[str] = ["right"]

    def read() -> SecretStr:
        if not stored:
            raise PasswordError("it is gone")
        return SecretStr(stored[0])

    failing = Users({"monitor": read})
    assert await failing.authenticate("monitor", "right")
    stored.clear()
    with pytest.raises(PasswordError, match="it is gone"):
        await failing.authenticate("monitor", "right")


async def test_a_storm_of_wrong_passwords_leaves_the_event_loop_and_known_users_alone() -> None:
    assert await HASHED.authenticate("monitor", "hashed")
    storm = [asyncio.create_task(HASHED.authenticate("monitor", f"wrong {n}")) for n in range(30)]
    await asyncio.sleep(0)
    assert await HASHED.authenticate("monitor", "hashed")
    assert not all(task.done() for task in storm)
    assert not any(await asyncio.gather(*storm))


def test_no_password_is_in_what_is_printed() -> None:
    assert "right" not in repr(vars(USERS))


def test_two_hashes_of_one_password_differ() -> None:
    first, second = make_hash("same"), make_hash("same")
    assert first != second
    assert matches(first, "same")
    assert matches(second, "same")


@pytest.mark.parametrize(
    "text",
    [
        "$2b$12$C6UzMDM.H6dfI/f/IKcEeO7ZeWnLKyYYPqaSv3R3hWBt3m1sFYp8e",
        "$6$salt$hash",
        "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$RdescudvJCsgt3ub+b1dWRWJTmaasGgYAAAAAAAAAAA",
        "$argon2id$",
        HASH[:-1],
        HASH + "AA",
        HASH.replace("m=19456", "m=4194304"),
        HASH.replace("m=19456", "m=7"),
        HASH.replace("t=2", "t=0"),
        HASH.replace("t=2", "t=100"),
        HASH.replace("p=1", "p=64"),
        HASH.replace("v=19", "v=16"),
    ],
)
async def test_a_hash_that_cannot_be_used_is_an_error(text: str) -> None:
    with pytest.raises(PasswordError, match="make one with `amqp-gateway jmx password`"):
        check_stored(text)
    with pytest.raises(PasswordError):
        await users(monitor=text).authenticate("monitor", "any")


@given(
    st.text(max_size=100)
    | st.text("$argon2id=v19m,tp0+/", max_size=100).map(lambda text: "$argon2id$" + text)
)
def test_any_text_is_a_password_or_a_hash_or_an_error(text: str) -> None:
    try:
        check_stored(text)
    except PasswordError:
        assert is_hash(text)


@pytest.mark.parametrize("text", ["$5 a day", "a$2b$12$x", "", "$$"])
def test_other_passwords_may_have_dollars(text: str) -> None:
    check_stored(text)


def test_a_hash_of_other_parameters_is_accepted() -> None:
    check_hash("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$" + "A" * 43)
