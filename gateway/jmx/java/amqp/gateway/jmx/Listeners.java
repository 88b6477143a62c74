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
    private static final long HEAP = Runtime.getRuntime().maxMemory();
    private static final long MAX = HEAP / 16;
    private static final long MAX_OF_ALL = HEAP / 8;

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
     * Counts listeners that are to be added, without their filters.
     *
     * @throws IOException they would take too much
     */
    synchronized void add(ObjectName[] names) throws IOException {
        if (!reserve((long) OCTETS_OF_ONE * names.length)) {
            throw tooMuch();
        }
        for (ObjectName name : names) {
            Weight weight = weights.computeIfAbsent(name, key -> new Weight());
            weight.listeners++;
            weight.octets += OCTETS_OF_ONE;
        }
    }

    /** The filters of listeners that were added take so much, which is reserved. */
    synchronized void addFilters(ObjectName[] names, long reserved) {
        for (int place = 0; place < names.length; place++) {
            Weight weight = weights.get(names[place]);
            // In whole octets, of which the first one has the rest.
            long share = reserved / names.length + (place == 0 ? reserved % names.length : 0);
            if (weight == null) {
                // Removed in the meantime, by another request of the client.
                count(-share);
            } else {
                weight.octets += share;
            }
        }
    }

    /** Takes a part of the heap, if it is there. */
    synchronized boolean reserve(long more) {
        if (!fits(more)) {
            forgetThoseOfMissingObjects();
            if (!fits(more)) {
                return false;
            }
        }
        count(more);
        return true;
    }

    /** Gives back what was reserved. */
    synchronized void release(long reserved) {
        count(-reserved);
    }

    /** The error for a client whose listeners would take too much. */
    static IOException tooMuch() {
        return new IOException("the listeners take too much of jmx.heap; listen to"
            + " amqp.gateway:type=Gateway, which emits every event");
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
