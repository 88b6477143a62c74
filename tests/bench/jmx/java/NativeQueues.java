import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.DynamicMBean;
import javax.management.MBeanInfo;
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
public final class NativeQueues implements DynamicMBean {
    private static final String NAME = "native:source=native,package=bench,type=%s,name=queue-%06d";

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
        work.server.registerMBean(work, new ObjectName("native:type=NativeWork"));
    }

    private static ObjectName name(String type, int number) throws JMException {
        return ObjectName.getInstance(String.format(NAME, type, number));
    }

    private long set(int times) {
        long began = System.nanoTime();
        for (int time = 0; time < times; time++) {
            for (NativeQueue queue : queues) {
                queue.set(time);
            }
        }
        return System.nanoTime() - began;
    }

    /** Names are made outside the measured time, objects within it. */
    private long register(int count) {
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

    /** Reading {@code set:N} or {@code register:N} does the work: clients may read the beans of other domains. */
    @Override
    public Object getAttribute(String attribute) {
        String[] work = attribute.split(":");
        int times = Integer.parseInt(work[1]);
        return work[0].equals("set") ? set(times) : register(times);
    }

    @Override
    public AttributeList getAttributes(String[] attributes) {
        AttributeList found = new AttributeList();
        for (String attribute : attributes) {
            found.add(new Attribute(attribute, getAttribute(attribute)));
        }
        return found;
    }

    @Override
    public void setAttribute(Attribute attribute) {
        throw new UnsupportedOperationException();
    }

    @Override
    public AttributeList setAttributes(AttributeList attributes) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Object invoke(String operation, Object[] parameters, String[] signature) {
        throw new UnsupportedOperationException();
    }

    @Override
    public MBeanInfo getMBeanInfo() {
        return new MBeanInfo(getClass().getName(), "Work.", null, null, null, null);
    }
}
