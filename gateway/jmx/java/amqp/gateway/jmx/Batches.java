package amqp.gateway.jmx;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The batches that Python writes to our standard input, each behind its length; a call of {@link Bridge#push} follows
 * each.
 *
 * <p>Py4J, which carries the calls, would make a line of text of the octets, and take longer for that than the batch
 * does.
 */
final class Batches {
    /** As in {@code virtual_machine.py}. */
    private static final int MAX_OCTETS = 4 << 20;

    // Without a bound: the reader must always come to the end of the input, also if Python ended before its call.
    private final BlockingQueue<byte[]> waiting = new LinkedBlockingQueue<>();

    /** Reads batches until the input ends, which is the end of the parent. */
    void readAll(InputStream input) {
        DataInputStream stream = new DataInputStream(input);
        try {
            while (true) {
                int length = stream.readInt();
                if (length < 0 || length > MAX_OCTETS) {
                    throw new IOException("a batch of " + length + " octets");
                }
                byte[] octets = new byte[length];
                stream.readFully(octets);
                waiting.add(octets);
            }
        } catch (IOException error) {
            // No input is an end too.
        }
    }

    /** The next batch, which is on its way if it is not here yet. */
    byte[] next() throws InterruptedException {
        return waiting.take();
    }
}
