package amqp.gateway.jmx;

import java.util.concurrent.Semaphore;
import py4j.Py4JException;

/**
 * Reports logins and requests that are denied here, without asking Python, so that they are logged and recorded.
 *
 * <p>It runs in the thread of the client, which waits for it. Python limits how many are recorded.
 */
final class Denials {
    /** What was denied; Python's {@code Backend} knows the same words. */
    enum Kind {
        LOGIN("login"),
        REQUEST("request");

        final String word;

        Kind(String word) {
            this.word = word;
        }
    }

    /** At a time; Python has a thread for each. */
    private static final int MAX_AT_A_TIME = 4;

    private final Backend backend;
    private final Semaphore places = new Semaphore(MAX_AT_A_TIME);

    Denials(Backend backend) {
        this.backend = backend;
    }

    /**
     * Something was denied.
     *
     * @param user who asked for it; empty where none is named
     * @param reason for people, without a secret
     */
    void report(Kind kind, String user, String host, String reason) {
        byte[] octets = new MessageWriter().array(5)
            .string("denied").string(kind.word).string(user).string(host).string(reason).toBytes();
        places.acquireUninterruptibly();
        try {
            backend.call(octets);
        } catch (Py4JException error) {
            System.err.println("a denied " + kind.word + " was not recorded: " + error.getMessage());
        } finally {
            places.release();
        }
    }
}
