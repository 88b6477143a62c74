"""The state of applications over a restart of the gateway, and an address that is in use."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

from tests.applications.plant import new_plant, wait_for_the_disk
from tests.components.command_line import RunningCommand
from tests.components.waiting import wait_until

COLUMNS = ("siteAmiTankObject", "siteAmiTankLevel", "siteAmiTankState", "siteAmiTankSince", "siteAmiTankRaw")


def kill(gateway: RunningCommand) -> None:
    """Kill all processes of the gateway at once."""
    supervisor = psutil.Process(gateway.process.pid)
    for process in (*supervisor.children(recursive=True), supervisor):
        process.kill()
    gateway.process.wait()


def test_rows_and_columns_are_the_same_after_a_kill(tmp_path: Path) -> None:
    plant = new_plant(tmp_path)
    with plant.running() as gateway, plant.application("pump-7") as application:
        application.say(
            'O|T="Tank"|level=1',
            'O|T="Tank"|I="t1"|level=42|state="open"|since=1700000000000T|raw="AQID"U',
            'O|T="Tank"|I="t2"|level=7',
        )
        plant.shows("siteAmiTankLevel", "1 percent", "42 percent", "7 percent")
        wait_for_the_disk(plant, "pump-7|Tank|t1", "pump-7|Tank|t2")
        before = {column: plant.walk(column) for column in COLUMNS}
        (nameless,) = set(before["siteAmiTankObject"].values()) - {"t1", "t2"}
        kill(gateway)
    with plant.running():
        plant.shows("siteAmiTankRowStale", "true", "true", "true")
        assert {column: plant.walk(column) for column in COLUMNS} == before
        assert plant.source()["state"] == "synchronised"
        with plant.application("pump-7") as application:
            application.say('O|T="Tank"|I="t1"|depth=3|level=43')
            plant.shows("siteAmiTankDepth", "3")
            shown = plant.walk("siteAmiTankLevel")
            (row,) = (
                instance for instance, level in before["siteAmiTankLevel"].items() if level == "42 percent"
            )
            assert shown[row] == "43 percent"
            plant.shows("siteAmiTankObject", "t1", "t2", nameless)
            application.say('D|T="Tank"|I="t2"')
            plant.shows("siteAmiTankObject", "t1", nameless)
    reported = plant.ask_log(
        "SELECT kind, source FROM log WHERE kind = 'gap' OR class = 'application' ORDER BY seq"
    )
    gaps = [one["source"] for one in reported if one["kind"] == "gap"]
    assert gaps == [None, "plant"], "the source tells itself what it missed"
    lived = [one["kind"] for one in reported]
    assert (lived.count("create"), "delete" in lived) == (1, False), "it is the same application"


def test_an_address_that_is_taken_is_tried_again(tmp_path: Path) -> None:
    plant = new_plant(tmp_path)
    with socket.create_server(("127.0.0.1", plant.port)) as taken, plant.running("process", "core"):
        wait_until(lambda: plant.source().get("state") == "down", "the source is down")
        assert plant.source()["detail"] == (
            f"cannot listen on 127.0.0.1 port {plant.port}: Address already in use: configure another address"
            " or port"
        )
        tested = plant.command("source", "test", "plant")
        assert "is taken by something that does not speak AMI" in tested.errors
        taken.close()
        wait_until(lambda: plant.source().get("state") == "synchronised", "the source listens")
