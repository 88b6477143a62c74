"""How commands end that a broker does not let in; apart, because what it knows takes long to import."""

from __future__ import annotations

from gateway.links.amqp_connection import Trouble
from gateway.service.processes.exit_codes import ExitCode

OF_TROUBLE = {
    Trouble.UNREACHABLE: ExitCode.UNREACHABLE,
    Trouble.REFUSED_CREDENTIALS: ExitCode.CREDENTIALS,
    Trouble.REFUSED_VHOST: ExitCode.VHOST,
    Trouble.MISSING: ExitCode.MISSING,
    Trouble.FORBIDDEN: ExitCode.FORBIDDEN,
    Trouble.MISCONFIGURED: ExitCode.CONFIGURATION,
    Trouble.BROKEN: ExitCode.FAILED,
}
