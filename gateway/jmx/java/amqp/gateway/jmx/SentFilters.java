package amqp.gateway.jmx;

import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.rmi.MarshalledObject;

/**
 * What the filters of notifications in a request will take of the heap, before they are read.
 *
 * <p>A client may send the octets of a filter once and name them for many listeners, each of which reads its own filter
 * from them. So the octets of each are counted, as if they had been sent for it.
 */
final class SentFilters {
    /** Of an octet: a name of an MBean takes most for what is sent of it. */
    private static final long EXPANSION = 24;
    private static final int BLOCK = 8192;

    private final Listeners listeners;
    private long reserved;

    SentFilters(Listeners listeners) {
        this.listeners = listeners;
    }

    /**
     * Takes the part of the heap that filters will have; null stands for none.
     *
     * @throws IOException there is no room for all of them
     */
    void reserve(MarshalledObject<?>[] filters) throws IOException {
        for (MarshalledObject<?> filter : filters) {
            if (filter != null) {
                try (ObjectOutputStream output = new ObjectOutputStream(new Reserving())) {
                    output.writeObject(filter);
                }
            }
        }
    }

    /** What was taken. */
    long reserved() {
        return reserved;
    }

    /** Counts octets, and ends the writing where there is no room for what they become. */
    private final class Reserving extends OutputStream {
        @Override
        public void write(int octet) throws IOException {
            take(1);
        }

        @Override
        public void write(byte[] octets, int start, int length) throws IOException {
            for (int left = length; left > 0; left -= BLOCK) {
                take(Math.min(left, BLOCK));
            }
        }

        private void take(int octets) throws IOException {
            if (!listeners.reserve(octets * EXPANSION)) {
                throw Listeners.tooMuch();
            }
            reserved += octets * EXPANSION;
        }
    }
}
