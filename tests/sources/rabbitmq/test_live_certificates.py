"""The source on a real broker whose certificate expires soon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from gateway.demo.broker import BrokerSettings, PrivateBroker
from gateway.demo.installation import find_installation
from gateway.demo.node_setup import free_ports
from gateway.model.times import SECOND
from tests.components.certificates import Authority, Certificate
from tests.components.waiting import until
from tests.sources.rabbitmq.watching import node_name, ready, watch

pytestmark = pytest.mark.each_rabbitmq(takes_long=True)


async def test_the_expiry_of_its_certificate_is_shown(
    tmp_path: Path, rabbitmq_settings: BrokerSettings
) -> None:
    folder = tmp_path / "broker"
    made = Authority.make(folder).confirm("server", days=20)
    with PrivateBroker(folder, settings=with_tls(rabbitmq_settings, folder, made)) as broker:
        async with watch(broker, broker.administrator) as watched:
            await ready(watched)
            node = node_name(watched)
            await until(lambda: watched.value("node", node, "certificatesExpire"), "the broker names it")
            expiry = x509.load_pem_x509_certificate(made.certificate.read_bytes()).not_valid_after_utc
            shown = int(expiry.timestamp()) * SECOND
            assert watched.value("node", node, "certificatesExpire") == shown
            assert watched.value("node", node, "certificatesExpiring") is True


def with_tls(settings: BrokerSettings, folder: Path, made: Certificate) -> BrokerSettings:
    """Return the settings of a broker with a certificate, which lies in the broker's folder."""
    seen = find_installation(settings.debian).seen(folder)
    for file in (made.key, made.certificate):
        file.chmod(0o644)  # for the broker's user
    lines = (
        f"listeners.ssl.1 = 127.0.0.1:{free_ports(1)[0]}",
        f"ssl_options.cacertfile = {seen / 'ca.pem'}",
        f"ssl_options.certfile = {seen / made.certificate.name}",
        f"ssl_options.keyfile = {seen / made.key.name}",
    )
    return replace(settings, configuration=(*settings.configuration, *lines))
