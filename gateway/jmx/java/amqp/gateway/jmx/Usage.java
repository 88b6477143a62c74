package amqp.gateway.jmx;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;

/** What the virtual machine uses of what it may. */
final class Usage {
    private Usage() {
    }

    /**
     * The MessagePack array {@code [clients, their bound, operations, their bound, heap, its bound, GC ms, GC count,
     * threads]}.
     */
    static byte[] toBytes(int clients, int operations) {
        MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
        long milliseconds = 0;
        long collections = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            // -1 stands for a collector that does not tell.
            milliseconds += Math.max(0, collector.getCollectionTime());
            collections += Math.max(0, collector.getCollectionCount());
        }
        return new MessageWriter().array(9)
            .integer(clients).integer(Authenticator.MAX_SESSIONS)
            .integer(operations).integer(Operations.MAX_AT_A_TIME)
            .integer(heap.getUsed()).integer(heap.getMax())
            .integer(milliseconds).integer(collections)
            .integer(ManagementFactory.getThreadMXBean().getThreadCount()).toBytes();
    }
}
