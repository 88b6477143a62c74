import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Platform MXBeans beside the gateway's MBeans: in the same virtual machine and server, behind the same connector.
 *
 * <p>Loaded as a Java agent ({@code -javaagent:JAR=QUEUES}) before the gateway's own main class, so that nothing of what is
 * measured is changed for it. Names are as long as the gateway's, because each request carries one.
 */
public final class NativeQueues implements NativeWorkMXBean {
    private static final String NAME = "amqp.gateway:source=native,package=bench,type=%s,name=queue-%06d";

    private final MBeanServer server;
    private final List<NativeQueue> queues = new ArrayList<>();

    private NativeQueues(MBeanServer server) {
        this.server = server;
    }

    /** Called by Java; {@code argument} tells how many queues there are. */
    public static void premain(String argument) throws JMException {
        NativeQueues work = new NativeQueues(ManagementFactory.getPlatformMBeanServer());
        int count = Integer.parseInt(argument);
        for (int number = 0; number < count; number++) {
            NativeQueue queue = new NativeQueue("queue-" + number);
            work.queues.add(queue);
            work.server.registerMBean(queue, name("queue", number));
        }
        work.server.registerMBean(work, new ObjectName("amqp.gateway:type=NativeWork"));
    }

    private static ObjectName name(String type, int number) throws JMException {
        return ObjectName.getInstance(String.format(NAME, type, number));
    }

    @Override
    public long set(int times) {
        long began = System.nanoTime();
        for (int time = 0; time < times; time++) {
            for (NativeQueue queue : queues) {
                queue.set(time);
            }
        }
        return System.nanoTime() - began;
    }

    /** Names are made outside the measured time, objects within it. */
    @Override
    public long register(int count) {
        try {
            ObjectName[] names = new ObjectName[count];
            for (int number = 0; number < count; number++) {
                names[number] = name("spare", number);
            }
            long began = System.nanoTime();
            for (ObjectName name : names) {
                server.registerMBean(new NativeQueue("spare"), name);
            }
            long took = System.nanoTime() - began;
            for (ObjectName name : names) {
                server.unregisterMBean(name);
            }
            return took;
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
    }
}
