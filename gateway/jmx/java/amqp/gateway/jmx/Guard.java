package amqp.gateway.jmx;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.remote.MBeanServerForwarder;

/**
 * Decides what of a client's request reaches the server of MBeans, for each method of {@link MBeanServer}.
 *
 * <p>Reading and listening are forwarded. Setting and invoking are for the gateway's own MBeans, and carried out by
 * {@link Operations}: an exception that an MBean itself throws would reach the client wrapped in another. Every other
 * method is refused to every user: making, removing and loading MBeans, and whatever a later Java adds. The virtual
 * machine's own MBeans can be read, but not operated (a dump of the heap, say), except for what shows its threads to
 * those who may change something. Everybody may read a {@link Table}.
 */
final class Guard implements InvocationHandler {
    /** Methods that are forwarded in all their forms, because they change nothing. */
    private static final Set<String> FORWARDED = Set.of(
        "getAttribute", "getAttributes", "getDefaultDomain", "getDomains", "getMBeanCount", "getMBeanInfo",
        "getObjectInstance", "isInstanceOf", "isRegistered", "queryMBeans", "queryNames",
        "removeNotificationListener",
        // No client can call this one: the connector finds the classes of parameters by it.
        "getClassLoaderRepository");

    private final String domain;
    private final Operations operations;
    private final Refusals refusals;
    private MBeanServer server;

    private Guard(String domain, Operations operations) {
        this.domain = domain;
        this.operations = operations;
        this.refusals = operations.refusals;
    }

    /** Makes a guard, whose own MBeans are those of {@code domain}. */
    static MBeanServerForwarder of(String domain, Operations operations) {
        return (MBeanServerForwarder) Proxy.newProxyInstance(
            Guard.class.getClassLoader(), new Class<?>[] {MBeanServerForwarder.class}, new Guard(domain, operations));
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        if (method.getDeclaringClass() == Object.class) {
            return forward(this, method, arguments);
        }
        if (FORWARDED.contains(name)) {
            return forward(server, method, arguments);
        }
        switch (name) {
            case "getMBeanServer":
                return server;
            case "setMBeanServer":
                server = (MBeanServer) arguments[0];
                return null;
            case "addNotificationListener":
                // An MBean that is a listener would act with the rights of the virtual machine.
                if (method.getParameterTypes()[1] == ObjectName.class) {
                    throw refused("addNotificationListener of an MBean", arguments);
                }
                return forward(server, method, arguments);
            case "getClassLoaderFor":
                return classLoaderFor((ObjectName) arguments[0]);
            case "setAttribute":
                setAttribute((ObjectName) arguments[0], (Attribute) arguments[1]);
                return null;
            case "setAttributes":
                return setAttributes((ObjectName) arguments[0], (AttributeList) arguments[1]);
            case "invoke":
                return invokeOperation(
                    (ObjectName) arguments[0], (String) arguments[1], (Object[]) arguments[2], (String[]) arguments[3]);
            default:
                throw refused(name, arguments);
        }
    }

    private static Object forward(Object target, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    /**
     * The connector asks for it before a request that has parameters.
     *
     * <p>For an MBean that is missing, any will do: the request that follows fails, and names the client in its record.
     */
    private ClassLoader classLoaderFor(ObjectName name) {
        try {
            return server.getClassLoaderFor(name);
        } catch (InstanceNotFoundException error) {
            return ClassLoader.getPlatformClassLoader();
        }
    }

    private void setAttribute(ObjectName name, Attribute attribute) throws Exception {
        refusals.begin();
        try {
            requireOurs(name, "setAttribute");
            requireRight();
            operations.set(name, attribute);
        } catch (Exception error) {
            List<String> names = attribute == null ? List.of() : List.of(String.valueOf(attribute.getName()));
            refusals.failed("set", name, operations.number(name), "", names, error);
            throw error;
        }
    }

    private AttributeList setAttributes(ObjectName name, AttributeList attributes) throws Exception {
        refusals.begin();
        try {
            requireOurs(name, "setAttributes");
            requireRight();
            return operations.setAll(name, attributes);
        } catch (Exception error) {
            refusals.failed("set", name, operations.number(name), "", List.of(), error);
            throw error;
        }
    }

    private Object invokeOperation(ObjectName name, String operation, Object[] parameters, String[] signature)
            throws Exception {
        Table table = operations.table(name);
        if (table != null) {
            return table.invoke(operations.viewer(), operation, parameters, signature == null ? List.of() : Arrays.asList(signature));
        }
        if (ThreadReads.includes(name, operation)) {
            requireRight();
            ThreadReads.check(parameters);
            return server.invoke(name, operation, parameters, signature);
        }
        refusals.begin();
        try {
            requireOurs(name, "invoke");
            if (!PastEvents.includes(name, operation)) {
                requireRight();
            }
            return operations.invoke(name, operation, parameters, signature);
        } catch (Exception error) {
            if (isOurs(name) || !onlyReads(operation)) {
                refusals.failed("invoke", name, operations.number(name), operation, List.of(), error);
            }
            throw error;
        }
    }

    private void requireOurs(ObjectName name, String method) {
        if (!isOurs(name)) {
            throw refusedToEverybody(method + " outside the domain " + domain);
        }
    }

    /** The values of a user who may change nothing were not even read ({@link Session}). */
    private void requireRight() {
        if (!operations.mayChange()) {
            throw new SecurityException("refused: no rule lets jmx:" + Caller.user()
                + " change anything");
        }
    }

    private boolean isOurs(ObjectName name) {
        return name == null || name.getDomain().equals(domain);
    }

    /**
     * Whether an operation of the virtual machine's own MBeans changes nothing, judged by its name: their descriptions
     * give no impact.
     *
     * <p>JConsole asks for some all the time. That is refused too, but is no attempt to change anything.
     */
    private static boolean onlyReads(String operation) {
        return operation != null
            && (operation.startsWith("get") || operation.startsWith("find") || operation.startsWith("is"));
    }

    /** Records an attempt that no user may make. The first ObjectName among its arguments is what it was about. */
    private SecurityException refused(String method, Object[] arguments) {
        ObjectName name = null;
        for (Object argument : arguments == null ? new Object[0] : arguments) {
            if (argument instanceof ObjectName) {
                name = (ObjectName) argument;
                break;
            }
        }
        SecurityException refusal = refusedToEverybody(method);
        refusals.report("invoke", name, 0, method, List.of(), "refused", refusal.getMessage());
        return refusal;
    }

    private static SecurityException refusedToEverybody(String what) {
        return new SecurityException("refused: " + what + " is refused to everybody");
    }
}
