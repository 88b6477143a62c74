"""What reads of a community whose role hides something cost, beside those of one that reads everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.snmp.ber import Oid
from tests.bench.rows import OURS
from tests.bench.run import Run
from tests.bench.snmp.agents import RESTRICTED, Agent, Load
from tests.bench.snmp.requests import RESTRICTED_GET, RESTRICTED_WALK, restricted_questions
from tests.bench.snmp.table import is_hidden
from tests.snmp.datagrams import COMMUNITY, Answer, read_answer
from tests.snmp.net_snmp import exchange

_TURNS: Final = 10
_TURN: Final = {RESTRICTED_GET: 8_000, RESTRICTED_WALK: 2_000}
"""The number of requests in one turn of a community."""

_COMMUNITIES: Final = {OURS: RESTRICTED.encode(), "unrestricted": COMMUNITY}
_SAMPLE: Final = 100


class Restricted:
    """Both communities at one agent, which get the same requests.

    Args:
        run: the run of the benchmark; its folder gets the requests.
        load: the sender.
        agent: the process ``snmp``.
        entry: the OID of the entry of its table.
        rows: the number of rows.

    Raises:
        AssertionError: the role hides nothing, or something else.
    """

    def __init__(self, run: Run, load: Load, agent: Agent, entry: Oid, rows: int) -> None:
        self._run = run
        self._load = load
        self._agent = agent
        self._questions = {
            (each.case, side): each
            for side, community in _COMMUNITIES.items()
            for each in restricted_questions(entry, rows, community)
        }
        self._files = {key: run.folder / f"{key[0].name}.{key[1]}.requests" for key in self._questions}
        for key, path in self._files.items():
            self._questions[key].write(path)
        self._compare()

    def measure(self, number: int) -> None:
        """Measure the round with this number, in short turns of both communities."""
        sides = list(_COMMUNITIES)
        for case, amount in _TURN.items():
            worked = dict.fromkeys(sides, 0.0)
            count = self._run.count(amount, 50)
            for turn in range(_TURNS):
                for side in sides if (number + turn) % 2 == 0 else sides[::-1]:
                    window = self._questions[case, side].window
                    worked[side] += self._load.seconds(self._agent, self._files[case, side], window, count)[0]
            for side in sides:
                self._run.record(case, side, worked[side] * 1e6 / (_TURNS * count))

    def _compare(self) -> None:
        """Assert that shown objects have the same answers, and that a walk passes over hidden ones."""
        gets, walks = (
            {side: list(self._answers(self._questions[case, side].requests)) for side in _COMMUNITIES}
            for case in _TURN
        )
        assert [one.varbinds for one in gets[OURS]] == [one.varbinds for one in gets["unrestricted"]]
        hidden, all_rows = (
            {name[-1] for one in walks[side] for name, _ in one.varbinds} for side in _COMMUNITIES
        )
        assert hidden == {row for row in hidden if not is_hidden(row)}, "a hidden row is shown"
        assert any(map(is_hidden, all_rows)), "the role hides nothing"
        assert [len(one.varbinds) for one in walks[OURS]] == [
            len(one.varbinds) for one in walks["unrestricted"]
        ]

    def _answers(self, requests: Iterable[bytes]) -> Iterable[Answer]:
        for question in list(requests)[:_SAMPLE]:
            yield read_answer(exchange(self._agent.port, question))
