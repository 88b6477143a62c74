"""Each method of Java's ``MBeanServer`` has a decision; one that is not known is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from gateway.jmx.java_runtime import class_path
from tests.components.java_classes import JAVAC

pytestmark = pytest.mark.xdist_group("guard")  # each worker would compile it

SOURCE: Final = Path(__file__).parent / "guard" / "GuardDecisions.java"

FORWARDED: Final = {
    "addNotificationListener(ObjectName,NotificationListener,NotificationFilter,Object)",
    "getAttribute(ObjectName,String)",
    "getAttributes(ObjectName,String[])",
    "getClassLoaderFor(ObjectName)",
    "getClassLoaderRepository()",
    "getDefaultDomain()",
    "getDomains()",
    "getMBeanCount()",
    "getMBeanInfo(ObjectName)",
    "getObjectInstance(ObjectName)",
    "isInstanceOf(ObjectName,String)",
    "isRegistered(ObjectName)",
    "queryMBeans(ObjectName,QueryExp)",
    "queryNames(ObjectName,QueryExp)",
    "removeNotificationListener(ObjectName,NotificationListener)",
    "removeNotificationListener(ObjectName,NotificationListener,NotificationFilter,Object)",
    "removeNotificationListener(ObjectName,ObjectName)",
    "removeNotificationListener(ObjectName,ObjectName,NotificationFilter,Object)",
}
CARRIED_OUT: Final = {
    "invoke(ObjectName,String,Object[],String[])",
    "setAttribute(ObjectName,Attribute)",
    "setAttributes(ObjectName,AttributeList)",
}
REFUSED: Final = {
    "addNotificationListener(ObjectName,ObjectName,NotificationFilter,Object)",
    "createMBean(String,ObjectName)",
    "createMBean(String,ObjectName,ObjectName)",
    "createMBean(String,ObjectName,Object[],String[])",
    "createMBean(String,ObjectName,ObjectName,Object[],String[])",
    "deserialize(ObjectName,byte[])",
    "deserialize(String,byte[])",
    "deserialize(String,ObjectName,byte[])",
    "getClassLoader(ObjectName)",
    "instantiate(String)",
    "instantiate(String,ObjectName)",
    "instantiate(String,Object[],String[])",
    "instantiate(String,ObjectName,Object[],String[])",
    "registerMBean(Object,ObjectName)",
    "unregisterMBean(ObjectName)",
}


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The decision of the guard on each method that this Java has."""
    folder = tmp_path_factory.mktemp("guard")
    jars = ":".join(map(str, class_path()))
    subprocess.run([*JAVAC, "-cp", jars, "-d", str(folder), str(SOURCE)], check=True)  # noqa: S603  the JDK
    command = ["java", "-cp", f"{folder}:{jars}", "amqp.gateway.jmx.GuardDecisions"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  the JDK
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


def test_reading_and_listening_reach_the_server(decisions: dict[str, str]) -> None:
    assert {method for method, decision in decisions.items() if decision == "forwarded"} == FORWARDED


def test_setting_and_invoking_are_carried_out_by_ourselves(decisions: dict[str, str]) -> None:
    assert {method for method, decision in decisions.items() if decision == "own"} == CARRIED_OUT


def test_every_other_method_is_refused(decisions: dict[str, str]) -> None:
    refused = {method for method, decision in decisions.items() if decision == "refused"}
    assert refused == decisions.keys() - FORWARDED - CARRIED_OUT
    assert refused >= REFUSED & decisions.keys()
    assert {"createMBean(String,ObjectName)", "unregisterMBean(ObjectName)"} <= refused
