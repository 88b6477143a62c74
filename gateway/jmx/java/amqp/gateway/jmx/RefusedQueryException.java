package amqp.gateway.jmx;

import java.io.IOException;

/** A search that is not carried out, or not to its end, for a reason that is said to the client. */
final class RefusedQueryException extends IOException {
    private static final long serialVersionUID = 1L;

    RefusedQueryException(String reason) {
        super("the query is refused: " + reason);
    }
}
