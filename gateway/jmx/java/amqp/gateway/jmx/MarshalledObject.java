package amqp.gateway.jmx;

import java.io.Serializable;

/**
 * The octets of a {@code java.rmi.MarshalledObject}, which would itself make an object of the JDK's classes of them.
 *
 * <p>It has its serial form, by which {@link QueryReader} reads the one as the other.
 */
final class MarshalledObject implements Serializable {
    private static final long serialVersionUID = 8988374069173025854L;
    private final byte[] objBytes;

    private MarshalledObject() {
        objBytes = null;
    }

    /** Null stands for null. */
    byte[] octets() {
        return objBytes;
    }
}
