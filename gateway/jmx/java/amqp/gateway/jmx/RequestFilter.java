package amqp.gateway.jmx;

import java.io.IOException;
import java.io.ObjectInputFilter;

/**
 * Decides what is deserialised of the requests to a session: classes, and the sizes of all arrays together.
 *
 * <p>Java asks it for each class, array and reference of the stream of a request, and of the streams within
 * ({@code MarshalledObject}). To ask it at all, a client must have named the object of the session, which is
 * a random number: so the connection is the session's from then on.
 */
final class RequestFilter implements ObjectInputFilter {
    private final Session session;
    private final Denials denials;

    RequestFilter(Session session, Denials denials) {
        this.session = session;
        this.denials = denials;
    }

    @Override
    public Status checkInput(FilterInfo info) {
        ClientSocket socket = ClientSocket.current();
        try {
            session.requireClient(socket);
            socket.belongsTo(session);
            Class<?> type = info.serialClass();
            if (type != null && type.isArray() && info.arrayLength() >= 0
                    && !socket.admitsArray(type, info.arrayLength())) {
                return rejected("the arrays of a request are too large");
            }
        } catch (IOException | SecurityException error) {
            return Status.REJECTED;
        }
        Status status = socket.part().filter.checkInput(info);
        if (status != Status.REJECTED) {
            return status;
        }
        return rejected(SerialFilters.reason(info, "request"));
    }

    private Status rejected(String reason) {
        denials.report(Denials.Kind.REQUEST, session.user, session.host, reason);
        return Status.REJECTED;
    }
}
