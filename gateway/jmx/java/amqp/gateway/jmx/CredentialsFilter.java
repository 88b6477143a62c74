package amqp.gateway.jmx;

import java.io.ObjectInputFilter;

/** Decides what is deserialised of a login: user and password. What it refuses is recorded, and answered late. */
final class CredentialsFilter implements ObjectInputFilter {
    private final Denials denials;

    CredentialsFilter(Denials denials) {
        this.denials = denials;
    }

    @Override
    public Status checkInput(FilterInfo info) {
        Status status = SerialFilters.CREDENTIALS.checkInput(info);
        if (status == Status.REJECTED) {
            denials.report(Denials.Kind.LOGIN, "", Caller.host(), SerialFilters.reason(info, "login"));
            ClientSocket.current().delay(Authenticator.FAILURE_MILLISECONDS);
        }
        return status;
    }
}
