package amqp.gateway.jmx;

import java.lang.management.ManagementFactory;
import java.util.Set;
import javax.management.ObjectName;

/**
 * What operators may call of the virtual machine's MBean of threads, for the consoles that show them.
 *
 * <p>Stacks say where in the gateway's work the requests of other clients are: who may only read is not shown them.
 */
final class ThreadReads {
    /** All of them only read, in all their forms. */
    private static final Set<String> OPERATIONS = Set.of(
        "dumpAllThreads", "findDeadlockedThreads", "findMonitorDeadlockedThreads", "getThreadAllocatedBytes",
        "getThreadCpuTime", "getThreadInfo", "getThreadUserTime");
    /** Threads that one call asks for: more than there are. */
    private static final int MAX_THREADS = 1000;

    private ThreadReads() {
    }

    static boolean includes(ObjectName name, String operation) {
        return name != null && name.getCanonicalName().equals(ManagementFactory.THREAD_MXBEAN_NAME)
            && operation != null && OPERATIONS.contains(operation);
    }

    /** Refuses a call that asks for the same threads again and again. */
    static void check(Object[] parameters) {
        for (Object parameter : parameters == null ? new Object[0] : parameters) {
            if (parameter instanceof long[] && ((long[]) parameter).length > MAX_THREADS) {
                throw PageRequest.illegal("wrong-length: " + ((long[]) parameter).length + " threads; a call may ask for "
                    + MAX_THREADS);
            }
        }
    }
}
