package amqp.gateway.jmx;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.UnaryOperator;

/**
 * The batches that Python writes to our standard input, each behind its length; a call of {@link Bridge#push} follows
 * each, and gets its answer.
 *
 * <p>Py4J, which carries the calls, would make a line of text of the octets, and take longer for that than the batch
 * does. A batch does not wait for its call, whose thread has to wait for its turn in a Python that is busy.
 */
final class Batches {
    /** As in {@code virtual_machine.py}. */
    private static final int MAX_OCTETS = 4 << 20;

    // Without a bound: the reader must always come to the end of the input, also if Python ended before its call.
    private final BlockingQueue<byte[]> waiting = new LinkedBlockingQueue<>();
    private final BlockingQueue<Future<byte[]>> answers = new LinkedBlockingQueue<>();

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

    /** Carries out each batch when it is here, for ever; {@code once} returns the answer to one. */
    void carryOut(UnaryOperator<byte[]> once) {
        try {
            while (true) {
                byte[] batch = waiting.take();
                FutureTask<byte[]> task = new FutureTask<>(() -> once.apply(batch));
                task.run();
                answers.add(task);
            }
        } catch (InterruptedException error) {
            // Only the end of the virtual machine interrupts this thread.
        }
    }

    /** The answer to the next batch, which is on its way if it is not here yet. */
    byte[] answer() throws InterruptedException, ExecutionException {
        return answers.take().get();
    }
}
