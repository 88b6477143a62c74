package amqp.gateway.jmx;

/**
 * What Python implements: the one way back to it.
 *
 * <p>A request is the MessagePack array {@code [operation, argument, ...]}, an answer {@code [status, text, items]},
 * status by {@link Status}. Nothing else crosses, above all no exception of Python's: a client could not read it.
 */
public interface Backend {
    byte[] call(byte[] request);
}
