package amqp.gateway.jmx;

import java.util.Collection;
import java.util.concurrent.Semaphore;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.ObjectName;
import javax.management.ReflectionException;
import py4j.Py4JException;

/**
 * Reports attempts to change something that are refused here, without asking Python, so that they are recorded.
 *
 * <p>It runs in the thread of the client, which waits for it: frequent attempts are slowed down. Python limits how
 * many are recorded.
 */
final class Refusals {
    /** At a time; Python has a thread for each beside those for {@link Operations}. */
    static final int MAX_AT_A_TIME = 8;
    /** Characters of a name or text; a client may say anything. */
    static final int MAX_TEXT = 1000;
    /** Names of attributes that are reported of an attempt. */
    static final int MAX_NAMES = 100;

    private final Backend backend;
    private final Semaphore places = new Semaphore(MAX_AT_A_TIME);
    /** Whether Python was asked in what this thread carries out now: then it knows. */
    private final ThreadLocal<Boolean> asked = ThreadLocal.withInitial(() -> false);

    Refusals(Backend backend) {
        this.backend = backend;
    }

    /** A client's request begins in this thread. */
    void begin() {
        asked.set(false);
    }

    /** Python is asked to carry out the request of this thread. */
    void asked() {
        asked.set(true);
    }

    /** Reports that the request of this thread failed, unless Python was asked. */
    void failed(String kind, ObjectName name, long number, String method, Collection<String> elements,
            Exception error) {
        if (!asked.get()) {
            report(kind, name, number, method, elements, outcome(error), String.valueOf(error.getMessage()));
        }
    }

    /**
     * An attempt was refused.
     *
     * @param kind {@code set} or {@code invoke}
     * @param name of the MBean; null where there is none
     * @param number of the managed object; 0 where it is none of ours
     * @param method that was called; empty of a set
     * @param elements attributes that were to be set
     * @param outcome as in the record
     * @param text why, for people
     */
    void report(String kind, ObjectName name, long number, String method, Collection<String> elements,
            String outcome, String text) {
        MessageWriter request = new MessageWriter().array(10).string("refused").string(user()).string(Caller.host())
            .string(kind).integer(number).string(cut(method)).array(Math.min(elements.size(), MAX_NAMES));
        elements.stream().limit(MAX_NAMES).forEach(element -> request.string(cut(element)));
        byte[] octets = request.string(outcome).string(cut(text)).string(cut(String.valueOf(name))).toBytes();
        // An attempt is recorded however many come at once: its client waits.
        places.acquireUninterruptibly();
        try {
            backend.call(octets);
        } catch (Py4JException error) {
            System.err.println("a refused attempt was not recorded: " + error.getMessage());
        } finally {
            places.release();
        }
    }

    private static String outcome(Exception error) {
        if (error instanceof SecurityException) {
            return "refused";
        }
        if (error instanceof InstanceNotFoundException) {
            return "object-gone";
        }
        boolean isUnknown = error instanceof AttributeNotFoundException || error instanceof ReflectionException;
        return isUnknown ? "unknown-element" : "wrong-value";
    }

    private static String user() {
        try {
            return Caller.user();
        } catch (SecurityException error) {
            return "";
        }
    }

    private static String cut(String text) {
        return text == null ? "" : text.length() <= MAX_TEXT ? text : text.substring(0, MAX_TEXT);
    }
}
