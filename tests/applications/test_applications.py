"""The messages of an application on a socket are shown in SNMP, JMX and the command line."""

from __future__ import annotations

import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.service.processes.exit_codes import ExitCode
from tests.applications.plant import SOURCE, Plant
from tests.components.ami_application import Application, connected
from tests.components.jmx_client import JmxClient, JmxClientError
from tests.components.waiting import eventually, wait_until
from tests.hypothesis_profiles import PROVING

pytestmark = pytest.mark.xdist_group("plant of applications")

ROUNDS = 20 if PROVING else 10

APPLICATION = f"{SOURCE}/ami-relay:application"
DRAIN = (
    'C|I="drain"|N="Tank.Drain"|M="0"|A="{\\"form\\":{\\"inputs\\":[{\\"label\\":\\"Why\\",\\"var\\":\\"why\\",'
    '\\"required\\":true}]},\\"timeout\\":8000}"'
)


@pytest.fixture
async def jmx(plant: Plant, tmp_path: Path) -> AsyncIterator[JmxClient]:
    """Provide a Java client of the gateway."""
    password = plant.site.state.secret("jmx-monitor")
    address = f"127.0.0.1:{plant.jmx_port}"
    async with await JmxClient.connect(tmp_path / "client.jar", address, "monitor", password) as client:
        yield client


def bean(kind: str, name: str) -> str:
    return f'amqp.gateway:source={SOURCE},package=ami,type={kind},name="{name}"'


def test_objects_are_rows_of_a_table(plant: Plant) -> None:
    with plant.application("pump-7") as application:
        application.say(
            'O|T="Tank"|I="t1"|level=42|filled=900L|heat=21.5D|state="open"|since=1700000000000T',
            'O|T="Tank"|I="t2"|level=7|state=\'shut\'|note="a|b \\u00e9"',
        )
        plant.shows("siteAmiTankObject", "t1", "t2")
        assert sorted(plant.walk("siteAmiTankLevel").values()) == ["42 percent", "7 percent"]
        assert sorted(plant.walk("siteAmiTankState").values()) == ["open", "shut"]
        assert list(plant.walk("siteAmiTankFilled").values()) == ["900 l"]
        assert list(plant.walk("siteAmiTankHeat").values()) == ["4035800000000000"]  # 21.5 as in IEEE 754
        assert list(plant.walk("siteAmiTankHeatText").values()) == ["21.5"]
        assert set(plant.walk("siteAmiTankRowStale").values()) == {"false"}


def test_applications_are_rows_of_the_shipped_module(plant: Plant) -> None:
    with plant.application("pump-8"):
        wait_until(lambda: "pump-8" in plant.walk("amiApplicationApplication").values(), "it has a row")
        names = plant.walk("amiApplicationApplication")
        (instance,) = (name.partition(".")[2] for name, value in names.items() if value == "pump-8")
        column = f"amiApplicationConnected.{instance}"
        assert plant.walk(column) == {column: "true"}
        assert plant.walk("agElementsNotShown") == {"agElementsNotShown.0": "0 elements"}


async def test_attributes_of_an_mbean_grow_and_columns_stay(plant: Plant, jmx: JmxClient) -> None:
    with plant.application("mixer") as application:
        application.say('O|T="Mixer"|I="m1"|speed=5')
        name = bean("Mixer", r"mixer|m1")

        async def is_there() -> bool:
            return name in await jmx.names("amqp.gateway:type=Mixer,*")

        await eventually(is_there, "the MBean")
        assert (await jmx.read(name))["speed"].value == 5
        plant.shows("siteAmiMixerSpeed", "5")
        (column,) = plant.walk("siteAmiMixerSpeed")
        application.say('O|T="Mixer"|I="m1"|motor="on"|speed=6')

        async def has_grown() -> bool:
            attributes = await jmx.read(name)  # it stays registered
            return "motor" in attributes and attributes["speed"].value == 6

        await eventually(has_grown, "the new attribute")
        plant.shows("siteAmiMixerMotor", "on")
        assert plant.walk("siteAmiMixerSpeed") == {column: "6"}

        async def is_recorded() -> bool:
            grown = plant.ask_log("SELECT \"values\"->>'motor' AS motor FROM log WHERE class = 'Mixer'")
            return "on" in {one["motor"] for one in grown}

        await eventually(is_recorded, "the new key is in the log")
        lives = plant.ask_log("SELECT kind FROM log WHERE class = 'Mixer' AND kind IN ('create', 'delete')")
        assert [life["kind"] for life in lives] == ["create"], "the object goes on"


@contextmanager
def answering(application: Application) -> Iterator[None]:
    """Let the application drain a tank once, when it is requested."""

    def answer() -> None:
        request = application.receives(r'E.*\|I="([^"]+)".*\|why="cleaning"')[1]
        application.say(f'R|I="{request}"|S=0|M="drained, because it was asked"|litres=40')

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield
    thread.join()


def test_a_command_is_called_and_its_answer_is_reported(plant: Plant) -> None:
    with plant.application("valve") as application:
        application.say(DRAIN)
        application.receives(r"\|S=0")
        call = ("invoke", f"{APPLICATION}/valve", "drain", "why=cleaning")
        wait_until(lambda: plant.command(*call, "--check").code is ExitCode.OK, "the method is shown")
        with answering(application):
            called = plant.command(*call)
        assert called.code is ExitCode.OK, called.errors
        assert "drained, because it was asked" in called.output
        missing = plant.command("invoke", f"{APPLICATION}/valve", "drain")
        assert missing.code is ExitCode.WRONG_VALUE
    assert plant.command(*call).code is ExitCode.SOURCE_DOWN


async def test_a_command_is_an_operation_of_an_mbean(plant: Plant, jmx: JmxClient) -> None:
    with plant.application("tap") as application:
        application.say(DRAIN)
        application.receives(r"\|S=0")
        name = f"amqp.gateway:source={SOURCE},package=ami-relay,type=application,name=tap"
        returned = []

        async def is_called() -> bool:
            try:
                returned.append(await jmx.invoke(name, "drain", "cleaning"))
            except JmxClientError as error:
                if "InstanceNotFound" not in str(error) and "has no operation" not in str(error):
                    raise
            return bool(returned)

        with answering(application):
            await eventually(is_called, "the operation is there, and called")
        assert "litres" in str(returned[0].value)


def test_objects_expire_and_are_deleted(plant: Plant) -> None:
    with plant.application("brewer") as application:
        application.say(*(f'O|T="Batch"|I="{name}"|E=-3600000L|size=1' for name in ("b1", "b2", "b3")))
        plant.shows("siteAmiBatchObject", "b1", "b2", "b3")
        application.say('O|T="Batch"|I="b1"|E=-1L', 'D|T="Batch"|I="b2"')
        plant.shows("siteAmiBatchObject", "b3")


def test_rows_of_an_application_that_has_gone_are_stale(plant: Plant) -> None:
    with plant.application("oven") as application:
        application.say('O|T="Oven"|I="o1"|heat=180')
        plant.shows("siteAmiOvenRowStale", "false")
    plant.shows("siteAmiOvenRowStale", "true")
    assert list(plant.walk("siteAmiOvenHeat").values()) == ["180"]
    with plant.application("oven") as application:
        application.say('O|T="Oven"|I="o1"|heat=190')
        plant.shows("siteAmiOvenHeat", "190")
        plant.shows("siteAmiOvenRowStale", "false")


def test_alarms_of_the_operators_mapping(plant: Plant) -> None:
    with plant.application("silo") as application:
        application.say('O|T="Silo"|I="s1"|level=95')
        plant.shows("agAlarmText", "s1 has 95 %")
        application.say('O|T="Silo"|I="s1"|level=85')  # above clear_below
        application.say('O|T="Silo"|I="s1"|level=79', 'O|T="Silo"|I="s2"|level=99')
        plant.shows("agAlarmText", "s2 has 99 %")


def test_a_peer_that_is_not_understood_gets_that_answer_and_disturbs_no_other(plant: Plant) -> None:
    with plant.application("good") as application, connected(plant.port) as stranger:
        stranger.say('O|T="Tank"|I="x"|level=1')
        stranger.receives(r"\|S=1\|.*[Ll]og")
        stranger.say("\x00\x01 nonsense", "GET / HTTP/1.1")
        stranger.receives(r"\|S=1")
        application.say('O|T="Good"|I="g1"|size=1')
        plant.shows("siteAmiGoodObject", "g1")


def test_reads_are_answered_while_much_is_reported(plant: Plant) -> None:
    with plant.application("busy", '|O="QUIET"') as application:
        application.say(*(f'O|T="Cell"|I="c{number}"|value=0' for number in range(1000)))
        plant.shows("siteAmiCellObject", *(f"c{number}" for number in range(1000)))

        def publish() -> None:
            for value in range(1, ROUNDS + 1):
                application.say(*(f'O|T="Cell"|I="c{number}"|value={value}' for number in range(1000)))

        publishing = threading.Thread(target=publish)
        publishing.start()
        seen = [plant.walk("siteAmiCellValue") for _ in range(3)]
        publishing.join()
        assert all(len(walk) == 1000 for walk in seen)
        plant.shows("siteAmiCellValue", *[str(ROUNDS)] * 1000)


def test_a_session_is_logged_where_it_is_asked_for(plant: Plant) -> None:
    folder = plant.site.state.path / "sessions" / SOURCE
    with plant.application("../../talker", '|O="LOG"') as application:
        application.say('O|T="Talk"|I="k1"|word="hello"|password="hush"')
        application.receives(r"\|S=0")
        file = folder / "_2e_2e_2f_2e_2e_2ftalker.log"
        wait_until(lambda: file.exists() and "hello" in file.read_text(encoding="ascii"), "the line is there")
    lines = file.read_text(encoding="ascii")
    assert ' < O|I="k1"|T="Talk"|word="hello"' in lines or ' < O|T="Talk"|I="k1"|word="hello"' in lines
    assert " > M|Q=" in lines
    assert "hush" not in lines
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == [file.name]
