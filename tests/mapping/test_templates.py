"""Templates: the names that they need; nothing but a name is replaced."""

from gateway.mapping.rules import filled, names_in


def test_places_are_names_in_braces() -> None:
    template = "{queue} of {vhost.name}: {} {1} { queue } {queue!r} {{vhost}}"
    assert names_in(template) == ("queue", "vhost.name", "vhost")
    assert filled(template, str.upper) == "QUEUE of VHOST.NAME: {} {1} { queue } {queue!r} {VHOST}"
