package amqp.gateway.jmx;

import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.Queue;

/**
 * What was emitted last, and the part of the heap that it may take.
 *
 * <p>Java keeps notifications for clients that fetch them late, and bounds their number. What they report may be long,
 * so the oldest of it is forgotten where all of it would take more; their clients receive how many they missed.
 */
final class KeptNotifications {
    /** Of what one reports, without its content. */
    private static final int OCTETS_OF_ONE = 512;
    /** Of a content, for each octet of its command. */
    private static final int EXPANSION = 6;

    private static final long MAX = Runtime.getRuntime().maxMemory() / 16;

    private final Queue<Entry> entries = new ArrayDeque<>();
    private long octets;

    /** What a notification reports. */
    interface Content {
        /** Lets go of what takes memory. Other threads may just be reading it. */
        void forget();
    }

    /** The content is kept by the notifications that report it, and by nothing else. */
    private static final class Entry extends WeakReference<Content> {
        private final long octets;

        Entry(Content content, long octets) {
            super(content);
            this.octets = octets;
        }
    }

    /**
     * Adds what notifications report that are about to be emitted. Only one thread at a time may add.
     *
     * @param encoded octets of the command that it comes from
     */
    void add(Content content, int encoded) {
        Entry entry = new Entry(content, OCTETS_OF_ONE + (long) EXPANSION * encoded);
        entries.add(entry);
        octets += entry.octets;
        // What was added last stays, however long it is; what nothing reports any more goes in any case.
        while (entries.size() > 1 && (octets > MAX || entries.element().get() == null)) {
            Entry eldest = entries.remove();
            octets -= eldest.octets;
            Content old = eldest.get();
            if (old != null) {
                old.forget();
            }
        }
    }
}
