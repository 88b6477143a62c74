package amqp.gateway.jmx;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** What the listeners of a session take of the heap, of which all sessions together have a part. */
final class Listeners {
    /** Without its filter. */
    private static final int OCTETS_OF_ONE = 512;
    /** Of a filter, for each octet that was sent. */
    private static final int EXPANSION = 4;
    private static final long HEAP = Runtime.getRuntime().maxMemory();
    private static final long MAX = HEAP / 16;
    private static final long MAX_OF_ALL = HEAP / 4;

    private final AtomicLong ofAll;
    private final Map<ObjectName, Weight> weights = new HashMap<>();
    private long octets;

    /** {@code ofAll} counts for all sessions. */
    Listeners(AtomicLong ofAll) {
        this.ofAll = ofAll;
    }

    private static final class Weight {
        private int listeners;
        private long octets;
    }

    /**
     * Counts listeners that are to be added.
     *
     * @param filters octets of all filters, as they were sent
     * @throws IOException they would take too much
     */
    synchronized void add(ObjectName[] names, long filters) throws IOException {
        long each = OCTETS_OF_ONE + filters * EXPANSION / Math.max(1, names.length);
        if (!fits(each * names.length)) {
            forgetThoseOfMissingObjects();
            if (!fits(each * names.length)) {
                throw new IOException("the listeners take too much of jmx.heap; listen to"
                    + " amqp.gateway:type=Gateway, which emits every event");
            }
        }
        for (ObjectName name : names) {
            Weight weight = weights.computeIfAbsent(name, key -> new Weight());
            weight.listeners++;
            weight.octets += each;
        }
        count(each * names.length);
    }

    /** Listeners were removed. */
    synchronized void remove(ObjectName name, int listeners) {
        Weight weight = weights.get(name);
        if (weight == null) {
            return;
        }
        int removed = Math.min(listeners, weight.listeners);
        long share = weight.octets * removed / weight.listeners;
        weight.listeners -= removed;
        weight.octets -= share;
        count(-share);
        if (weight.listeners == 0) {
            weights.remove(name);
        }
    }

    /** The session has ended. */
    synchronized void clear() {
        weights.clear();
        count(-octets);
    }

    private boolean fits(long more) {
        return octets + more <= MAX && ofAll.get() + more <= MAX_OF_ALL;
    }

    private void count(long more) {
        octets += more;
        ofAll.addAndGet(more);
    }

    /** Java takes the listeners of an MBean away with it, without a report. */
    private void forgetThoseOfMissingObjects() {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName name : weights.keySet().toArray(new ObjectName[0])) {
            if (name == null || !server.isRegistered(name)) {
                remove(name, Integer.MAX_VALUE);
            }
        }
    }
}
