package amqp.gateway.jmx;

/** Octets that are not MessagePack: nothing after them can be read. */
final class MalformedException extends Exception {
    private static final long serialVersionUID = 1L;

    MalformedException(int offset, String problem) {
        super("octet " + offset + ": " + problem);
    }
}
