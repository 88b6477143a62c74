"""One instruction of each kind, and the line that the documents have for it."""

from __future__ import annotations

from gateway.dialects.ami.form import Form, Input
from gateway.dialects.ami.instructions import (
    Alert,
    Command,
    Delete,
    Execute,
    Exit,
    Help,
    Instruction,
    Login,
    ObjectUpdate,
    Option,
    Pause,
    Reply,
    Response,
    Selection,
    Status,
    Trigger,
)
from gateway.dialects.ami.values import Double, Enum, Json, Long, Utc

EXAMPLES: list[tuple[Instruction, bytes]] = [
    (Login("pump-7"), b'L|I="pump-7"'),
    (
        Login(
            "pump-7",
            frozenset({Option.QUIET, Option.LOG, Option.UNIX}),
            "org.example.Plugin",
            {"site": "north"},
            sequence=0,
            now=1700000000000,
        ),
        b'L#0@1700000000000|I="pump-7"|O="QUIET,LOG,UNIX"|PL="org.example.Plugin"|site="north"',
    ),
    (Status({"mem": 88, "env": None}, sequence=4, now=1700000000900), b"S#4@1700000000900|mem=88|env=null"),
    (
        Alert("a1", 3, "Leak", -5000, "mori", {"where": "north"}),
        b'A|I="a1"|L=3|T="Leak"|E=-5000L|U="mori"|where="north"',
    ),
    (Alert("a1", 0, "Leak"), b'A|I="a1"|L=0|T="Leak"'),
    (ObjectUpdate("Tank"), b'O|T="Tank"'),
    (
        ObjectUpdate("Tank", "t1", 4102444800000, "a1", {"level": 3}),
        b'O|T="Tank"|I="t1"|E=4102444800000L|A="a1"|level=3',
    ),
    (
        ObjectUpdate(
            "Tank",
            values={
                "none": None,
                "on": True,
                "off": False,
                "level": -3,
                "cap": Long(-900),
                "vol": 12.5,
                "temp": Double(21.25),
                "name": "a'b",
                "color": Enum('r"d'),
                "at": Utc(1700000000000),
                "cfg": Json('{"k":[1,2]}'),
                "raw": b"\1\2\3",
                "my_key2": 0,
            },
        ),
        (
            rb'O|T="Tank"|none=null|on=true|off=false|level=-3|cap=-900L|vol=12.5|temp=21.25D'
            rb'|name="a\'b"'
            rb"|color='r\"d'"
            rb'|at=1700000000000T|cfg="{\"k\":[1,2]}"J|raw="AQID"U|my_key2=0'
        ),
    ),
    (Delete("Tank", "t1"), b'D|I="t1"|T="Tank"'),
    (Delete("Tank", "t1", {"why": "sold"}), b'D|I="t1"|T="Tank"|why="sold"'),
    (Command("stop", "Stop"), b'C|I="stop"|N="Stop"'),
    (
        Command(
            "halt",
            "Trading.Halt",
            2,
            Form((Input("why", "Why", required=True),), timeout=8000),
            "level>1",
            "panel",
            "Halts it",
            0,
            "on",
            ("venue", "size"),
            Selection(1, None),
            "{}",
            frozenset({Trigger.NOW, Trigger.USER_CLICK}),
            "alert()",
            {"z": 1},
        ),
        (
            rb'C|I="halt"|N="Trading.Halt"|L=2|M="1-"|F="venue,size"'
            rb'|A="{\"form\":{\"inputs\":[{\"label\":\"Why\",\"var\":\"why\",\"required\":true}]},\"timeout\":8000}"'
            rb'|W="level>1"|T="panel"|H="Halts it"|P=0|E="on"|S="{}"|C="now,user_click"|X="alert()"|z=1'
        ),
    ),
    (Command("c", "n", selection=Selection(2, 2)), b'C|I="c"|N="n"|M="2"'),
    (Command("c", "n", selection=Selection(0, 3)), b'C|I="c"|N="n"|M="0-3"'),
    (
        Response("k9Qz", 3, "halted", "x()", {"state": "HALTED"}),
        b'R|I="k9Qz"|S=3|M="halted"|X="x()"|state="HALTED"',
    ),
    (Exit({"reason": "eod"}, sequence=9), b'X#9|reason="eod"'),
    (Exit(), b"X"),
    (Help(), b"H"),
    (Pause(250), b"P|D=250"),
    (Pause(1), b"P|D=1"),
    (
        Reply(1, 0, "OK, command accepted", now=1700000000100),
        b'M@1700000000100|Q=1|S=0|M="OK, command accepted"',
    ),
    (Reply(1 << 40, 1), b"M|Q=1099511627776L|S=1"),
    (
        Execute(
            "k9Qz",
            "halt",
            "mori",
            "q7",
            "Quote",
            "s1",
            values={"why": "drift", "o": Long(4401), "venue": "XTKS"},
            now=1700000005000,
        ),
        (
            b'E@1700000005000|C="halt"|I="k9Qz"|U="mori"|S="s1"|T="Quote"|O="q7"'
            b'|why="drift"|o=4401L|venue="XTKS"'
        ),
    ),
    (
        Execute("k9Qz", "halt", "mori", rows=Json('[{"a":1}]')),
        rb'E|C="halt"|I="k9Qz"|U="mori"|V="[{\"a\":1}]"J',
    ),
]
