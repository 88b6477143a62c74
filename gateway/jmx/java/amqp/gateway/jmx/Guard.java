package amqp.gateway.jmx;

import java.util.List;
import java.util.Set;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.IntrospectionException;
import javax.management.InvalidAttributeValueException;
import javax.management.ListenerNotFoundException;
import javax.management.MBeanException;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.NotificationFilter;
import javax.management.NotificationListener;
import javax.management.ObjectInstance;
import javax.management.ObjectName;
import javax.management.QueryExp;
import javax.management.ReflectionException;
import javax.management.loading.ClassLoaderRepository;
import javax.management.remote.MBeanServerForwarder;

/**
 * Stands between clients and the server of MBeans: reading is allowed, and {@link Operations} on our own MBeans.
 *
 * <p>Nobody makes MBeans, loads classes or unregisters, whoever it is. The virtual machine's own MBeans can be
 * read; operations on them (a dump of the heap, say) and setting their attributes are refused.
 */
final class Guard implements MBeanServerForwarder {
    private final String domain;
    private final Operations operations;
    private final Refusals refusals;
    private MBeanServer server;

    /** What our own MBeans are asked to do, {@code operations} does: an MBean's own exceptions are wrapped. */
    Guard(String domain, Operations operations) {
        this.domain = domain;
        this.operations = operations;
        this.refusals = operations.refusals;
    }

    @Override
    public MBeanServer getMBeanServer() {
        return server;
    }

    @Override
    public void setMBeanServer(MBeanServer newServer) {
        server = newServer;
    }

    // What is refused to everybody.

    @Override
    public ObjectInstance createMBean(String className, ObjectName name) {
        throw refused("createMBean", name);
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, ObjectName loader) {
        throw refused("createMBean", name);
    }

    @Override
    public ObjectInstance createMBean(
            String className, ObjectName name, Object[] parameters, String[] signature) {
        throw refused("createMBean", name);
    }

    @Override
    public ObjectInstance createMBean(
            String className, ObjectName name, ObjectName loader, Object[] parameters, String[] signature) {
        throw refused("createMBean", name);
    }

    @Override
    public ObjectInstance registerMBean(Object object, ObjectName name) {
        throw refused("registerMBean", name);
    }

    @Override
    public void unregisterMBean(ObjectName name) {
        throw refused("unregisterMBean", name);
    }

    @Override
    public Object instantiate(String className) {
        throw refused("instantiate", null);
    }

    @Override
    public Object instantiate(String className, ObjectName loader) {
        throw refused("instantiate", null);
    }

    @Override
    public Object instantiate(String className, Object[] parameters, String[] signature) {
        throw refused("instantiate", null);
    }

    @Override
    public Object instantiate(
            String className, ObjectName loader, Object[] parameters, String[] signature) {
        throw refused("instantiate", null);
    }

    @Override
    public ClassLoader getClassLoader(ObjectName loader) {
        throw refused("getClassLoader", null);
    }

    /** An MBean as a listener would act with the virtual machine's rights. */
    @Override
    public void addNotificationListener(
            ObjectName name, ObjectName listener, NotificationFilter filter, Object handback) {
        throw refused("addNotificationListener of an MBean", name);
    }

    // What only our own MBeans are asked for.

    @Override
    public void setAttribute(ObjectName name, Attribute attribute)
            throws InstanceNotFoundException, AttributeNotFoundException, InvalidAttributeValueException,
            MBeanException {
        refusals.begin();
        try {
            requireOurs(name, "setAttribute");
            operations.set(name, attribute);
        } catch (InstanceNotFoundException | AttributeNotFoundException | InvalidAttributeValueException
                | MBeanException | RuntimeException error) {
            List<String> names = attribute == null ? List.of() : List.of(String.valueOf(attribute.getName()));
            refusals.failed("set", name, operations.number(name), "", names, error);
            throw error;
        }
    }

    @Override
    public AttributeList setAttributes(ObjectName name, AttributeList attributes)
            throws InstanceNotFoundException {
        refusals.begin();
        try {
            requireOurs(name, "setAttributes");
            return operations.setAll(name, attributes);
        } catch (InstanceNotFoundException | RuntimeException error) {
            refusals.failed("set", name, operations.number(name), "", List.of(), error);
            throw error;
        }
    }

    @Override
    public Object invoke(ObjectName name, String operation, Object[] parameters, String[] signature)
            throws InstanceNotFoundException, MBeanException, ReflectionException {
        refusals.begin();
        try {
            requireOurs(name, "invoke");
            return operations.knows(name) || !server.isRegistered(name)
                ? operations.invoke(name, operation, parameters, signature)
                : server.invoke(name, operation, parameters, signature);
        } catch (InstanceNotFoundException | MBeanException | ReflectionException | RuntimeException error) {
            if (isOurs(name) || !onlyReads(operation)) {
                refusals.failed("invoke", name, operations.number(name), operation, List.of(), error);
            }
            throw error;
        }
    }

    // What the connector itself needs, and no client can ask for: where the classes of parameters come from.

    /** Of an MBean that is missing, any: the request itself is to find that out, where it is known whose it is. */
    @Override
    public ClassLoader getClassLoaderFor(ObjectName name) {
        try {
            return server.getClassLoaderFor(name);
        } catch (InstanceNotFoundException error) {
            return ClassLoader.getPlatformClassLoader();
        }
    }

    @Override
    public ClassLoaderRepository getClassLoaderRepository() {
        return server.getClassLoaderRepository();
    }

    // Reading and listening.

    @Override
    public ObjectInstance getObjectInstance(ObjectName name) throws InstanceNotFoundException {
        return server.getObjectInstance(name);
    }

    @Override
    public Set<ObjectInstance> queryMBeans(ObjectName name, QueryExp query) {
        return server.queryMBeans(name, query);
    }

    @Override
    public Set<ObjectName> queryNames(ObjectName name, QueryExp query) {
        return server.queryNames(name, query);
    }

    @Override
    public boolean isRegistered(ObjectName name) {
        return server.isRegistered(name);
    }

    @Override
    public Integer getMBeanCount() {
        return server.getMBeanCount();
    }

    @Override
    public Object getAttribute(ObjectName name, String attribute)
            throws MBeanException, AttributeNotFoundException, InstanceNotFoundException, ReflectionException {
        return server.getAttribute(name, attribute);
    }

    @Override
    public AttributeList getAttributes(ObjectName name, String[] attributes)
            throws InstanceNotFoundException, ReflectionException {
        return server.getAttributes(name, attributes);
    }

    @Override
    public String getDefaultDomain() {
        return server.getDefaultDomain();
    }

    @Override
    public String[] getDomains() {
        return server.getDomains();
    }

    @Override
    public MBeanInfo getMBeanInfo(ObjectName name)
            throws InstanceNotFoundException, IntrospectionException, ReflectionException {
        return server.getMBeanInfo(name);
    }

    @Override
    public boolean isInstanceOf(ObjectName name, String className) throws InstanceNotFoundException {
        return server.isInstanceOf(name, className);
    }

    @Override
    public void addNotificationListener(
            ObjectName name, NotificationListener listener, NotificationFilter filter, Object handback)
            throws InstanceNotFoundException {
        server.addNotificationListener(name, listener, filter, handback);
    }

    @Override
    public void removeNotificationListener(ObjectName name, ObjectName listener)
            throws InstanceNotFoundException, ListenerNotFoundException {
        server.removeNotificationListener(name, listener);
    }

    @Override
    public void removeNotificationListener(
            ObjectName name, ObjectName listener, NotificationFilter filter, Object handback)
            throws InstanceNotFoundException, ListenerNotFoundException {
        server.removeNotificationListener(name, listener, filter, handback);
    }

    @Override
    public void removeNotificationListener(ObjectName name, NotificationListener listener)
            throws InstanceNotFoundException, ListenerNotFoundException {
        server.removeNotificationListener(name, listener);
    }

    @Override
    public void removeNotificationListener(
            ObjectName name, NotificationListener listener, NotificationFilter filter, Object handback)
            throws InstanceNotFoundException, ListenerNotFoundException {
        server.removeNotificationListener(name, listener, filter, handback);
    }

    private void requireOurs(ObjectName name, String method) {
        if (!isOurs(name)) {
            throw refusedToEverybody(method + " outside the domain " + domain);
        }
    }

    private boolean isOurs(ObjectName name) {
        return name == null || name.getDomain().equals(domain);
    }

    /**
     * Whether an operation of the virtual machine's own MBeans changes nothing, by its name: they tell no impact.
     *
     * <p>JConsole asks for threads all the time. That is refused, too, but it is no attempt to change anything.
     */
    private static boolean onlyReads(String operation) {
        return operation != null
            && (operation.startsWith("get") || operation.startsWith("find") || operation.startsWith("is"));
    }

    private SecurityException refused(String method, ObjectName name) {
        SecurityException refusal = refusedToEverybody(method);
        refusals.tell("invoke", name, 0, method, List.of(), "refused", refusal.getMessage());
        return refusal;
    }

    private static SecurityException refusedToEverybody(String what) {
        return new SecurityException("refused: " + what + " is refused to everybody");
    }
}
