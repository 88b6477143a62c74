package amqp.gateway.jmx;

import java.io.IOException;
import java.rmi.MarshalledObject;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.IntrospectionException;
import javax.management.InvalidAttributeValueException;
import javax.management.ListenerNotFoundException;
import javax.management.MBeanException;
import javax.management.MBeanInfo;
import javax.management.MBeanRegistrationException;
import javax.management.NotCompliantMBeanException;
import javax.management.ObjectInstance;
import javax.management.ObjectName;
import javax.management.ReflectionException;
import javax.management.remote.NotificationResult;
import javax.management.remote.TargetedNotification;
import javax.management.remote.rmi.RMIConnectionImpl;
import javax.security.auth.Subject;

/**
 * A client that has logged in, before anything that it sent is deserialised; {@link BoundSession} is what is served.
 *
 * <p>Values, queries and filters arrive as octets. Of a request that the {@link Guard} refuses whatever is in it,
 * they stay octets: it is forwarded without them. Places for what takes much memory or time are taken until the
 * answer has been sent.
 */
// MarshalledObject is raw in the methods of RMIConnectionImpl.
@SuppressWarnings("rawtypes")
abstract class Session extends RMIConnectionImpl {
    /** For so long a request waits for a place. */
    static final long PATIENCE_SECONDS = 10;

    /** Of one read; no class has as many. */
    private static final int MAX_ATTRIBUTES = 4096;
    /** As many as Java's client asks for. */
    private static final int MAX_NOTIFICATIONS = 1000;
    private static final long MAX_FETCH_MILLISECONDS = 60_000;
    /** Java's client fetches one after the other. */
    private static final int FETCHES = 4;

    final String user;
    final String host;
    private final boolean mayChange;
    private final ManagedObjects objects;
    final Denials denials;
    private final Viewer viewer;
    private final Sessions sessions;
    private final Sessions.Shares shares;
    private final Listeners listeners;
    private final Semaphore fetches = new Semaphore(FETCHES, true);

    Session(SessionServer server, String connectionId, Subject subject, Map<String, Object> environment,
            Sessions sessions, ManagedObjects objects, Denials denials) {
        super(server, connectionId, server.getDefaultClassLoader(), subject, environment);
        this.user = Caller.userOf(subject);
        this.host = ClientSocket.currentHost();
        this.mayChange = Caller.mayChange(subject);
        this.objects = objects;
        this.denials = denials;
        this.viewer = new Viewer(Caller.numberOf(subject), objects);
        this.sessions = sessions;
        this.shares = sessions.shares(user);
        this.listeners = new Listeners(sessions.listenerOctets);
    }

    /**
     * Checks that a connection is of the client that logged in.
     *
     * @throws SecurityException it is not, which was reported
     */
    abstract void requireClient(ClientSocket socket);

    void takeLargePlace(ClientSocket socket) throws IOException {
        for (Semaphore kind : shares.largeRequests) {
            socket.take(kind, "large requests");
        }
    }

    @Override
    public void close() throws IOException {
        sessions.remove(this);
        listeners.clear();
        super.close();
    }

    // What is refused whatever is in it.

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, MarshalledObject parameters,
            String[] signature, Subject delegate) throws ReflectionException, InstanceAlreadyExistsException,
            MBeanRegistrationException, MBeanException, NotCompliantMBeanException, IOException {
        return super.createMBean(className, name, null, null, delegate);
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, ObjectName loader,
            MarshalledObject parameters, String[] signature, Subject delegate) throws ReflectionException,
            InstanceAlreadyExistsException, MBeanRegistrationException, MBeanException, NotCompliantMBeanException,
            InstanceNotFoundException, IOException {
        return super.createMBean(className, name, loader, delegate);
    }

    @Override
    public void addNotificationListener(ObjectName name, ObjectName listener, MarshalledObject filter,
            MarshalledObject handback, Subject delegate) throws InstanceNotFoundException, IOException {
        super.addNotificationListener(name, listener, null, null, delegate);
    }

    // No MBean listens, and whether there is one of that name is not said.

    @Override
    public void removeNotificationListener(ObjectName name, ObjectName listener, MarshalledObject filter,
            MarshalledObject handback, Subject delegate) throws ListenerNotFoundException {
        throw noListener(listener);
    }

    @Override
    public void removeNotificationListener(ObjectName name, ObjectName listener, Subject delegate)
            throws ListenerNotFoundException {
        throw noListener(listener);
    }

    private static ListenerNotFoundException noListener(ObjectName listener) {
        return new ListenerNotFoundException(listener + " does not listen: no MBean can");
    }

    // What only those may send who may change something.

    @Override
    public void setAttribute(ObjectName name, MarshalledObject attribute, Subject delegate)
            throws InstanceNotFoundException, AttributeNotFoundException, InvalidAttributeValueException,
            MBeanException, ReflectionException, IOException {
        super.setAttribute(name, permitted(attribute), delegate);
    }

    @Override
    public AttributeList setAttributes(ObjectName name, MarshalledObject attributes, Subject delegate)
            throws InstanceNotFoundException, ReflectionException, IOException {
        return super.setAttributes(name, permitted(attributes), delegate);
    }

    @Override
    public Object invoke(ObjectName name, String operation, MarshalledObject parameters, String[] signature,
            Subject delegate) throws InstanceNotFoundException, MBeanException, ReflectionException, IOException {
        return super.invoke(name, operation, parametersOf(name, operation, parameters), signature, delegate);
    }

    /** The octets of parameters, if the guard does not refuse the operation whatever is in them. */
    private MarshalledObject parametersOf(ObjectName name, String operation, MarshalledObject parameters)
            throws IOException {
        boolean isPage = Table.mayBe(name) && Table.READ.equals(operation) || PastEvents.includes(name, operation);
        if (isPage || ThreadReads.includes(name, operation)) {
            // Its answer is as large, and takes as long, as that of a search.
            takeQueryPlace(ClientSocket.current());
        }
        if (isPage) {
            ClientSocket.current().begin(SerialFilters.Part.PAGE_REQUEST);
            return parameters;
        }
        return permitted(parameters);
    }

    /** The octets of values, if the user may change anything; without the right the guard refuses the rest. */
    private MarshalledObject permitted(MarshalledObject values) {
        ClientSocket.current().begin(SerialFilters.Part.VALUE);
        return objects.mayChange(viewer.user, mayChange) ? values : null;
    }

    // Reading.

    @Override
    public Object getAttribute(ObjectName name, String attribute, Subject delegate) throws MBeanException,
            AttributeNotFoundException, InstanceNotFoundException, ReflectionException, IOException {
        ClientSocket.current().take(shares.reads, "reads");
        if (viewer.isOurs(name)) {
            return viewer.require(name).getAttribute(viewer, attribute);
        }
        return super.getAttribute(name, attribute, delegate);
    }

    @Override
    public AttributeList getAttributes(ObjectName name, String[] attributes, Subject delegate)
            throws InstanceNotFoundException, ReflectionException, IOException {
        ClientSocket.current().take(shares.reads, "reads");
        // A name of five octets, sent again and again, would be answered with as many large values.
        String[] distinct = attributes == null
            ? null : Arrays.stream(attributes).distinct().toArray(String[]::new);
        if (distinct != null && distinct.length > MAX_ATTRIBUTES) {
            throw refused("a read of more than " + MAX_ATTRIBUTES + " attributes");
        }
        if (viewer.isOurs(name)) {
            return viewer.require(name).getAttributes(viewer, distinct);
        }
        return super.getAttributes(name, distinct, delegate);
    }

    @Override
    public MBeanInfo getMBeanInfo(ObjectName name, Subject delegate)
            throws InstanceNotFoundException, IntrospectionException, ReflectionException, IOException {
        ClientSocket.current().take(shares.reads, "reads");
        if (viewer.isOurs(name)) {
            return viewer.require(name).getMBeanInfo(viewer);
        }
        return super.getMBeanInfo(name, delegate);
    }

    @Override
    public ObjectInstance getObjectInstance(ObjectName name, Subject delegate)
            throws InstanceNotFoundException, IOException {
        viewer.requireExisting(name);
        return super.getObjectInstance(name, delegate);
    }

    @Override
    public boolean isInstanceOf(ObjectName name, String className, Subject delegate)
            throws InstanceNotFoundException, IOException {
        return viewer.isInstanceOf(name, className);
    }

    @Override
    public boolean isRegistered(ObjectName name, Subject delegate) throws IOException {
        return viewer.mayExist(name) && super.isRegistered(name, delegate);
    }

    @Override
    public Integer getMBeanCount(Subject delegate) throws IOException {
        takeQueryPlace(ClientSocket.current());
        return viewer.count(super.getMBeanCount(delegate));
    }

    @Override
    public Set<ObjectName> queryNames(ObjectName name, MarshalledObject query, Subject delegate)
            throws IOException {
        return find(name, query, asked -> super.queryNames(asked, null, delegate), Function.identity());
    }

    @Override
    public Set<ObjectInstance> queryMBeans(ObjectName name, MarshalledObject query, Subject delegate)
            throws IOException {
        return find(name, query, asked -> super.queryMBeans(asked, null, delegate), ObjectInstance::getObjectName);
    }

    /** What the server of MBeans finds. */
    private interface Finding<T> {
        Set<T> find(ObjectName name) throws IOException;
    }

    private <T> Set<T> find(ObjectName name, MarshalledObject<?> query, Finding<T> server, Function<T, ObjectName> nameOf)
            throws IOException {
        takeQueryPlace(ClientSocket.current());
        try {
            Query search = new Query(name, QueryReader.read(query));
            Set<T> existing = viewer.existing(server.find(search.asked(name)), nameOf);
            return search.select(existing, nameOf, viewer, new Deadline(Deadline.MAX_MILLISECONDS));
        } catch (RefusedQueryException error) {
            throw refused(error.getMessage());
        }
    }

    /** Records what is refused; the exception is of a class that every client has. */
    private IOException refused(String reason) {
        denials.report(Denials.Kind.REQUEST, user, host, reason);
        return new IOException(reason);
    }

    private void takeQueryPlace(ClientSocket socket) throws IOException {
        for (Semaphore kind : shares.queries) {
            socket.take(kind, "queries");
        }
    }

    // Notifications.

    @Override
    public Integer[] addNotificationListeners(ObjectName[] names, MarshalledObject[] filters, Subject[] delegates)
            throws InstanceNotFoundException, IOException {
        ClientSocket socket = ClientSocket.current();
        ObjectName[] listened = names == null ? new ObjectName[0] : names;
        for (ObjectName name : listened) {
            viewer.requireExisting(name);
        }
        listeners.add(listened);
        SentFilters sent = new SentFilters(listeners);
        boolean isDone = false;
        try {
            sent.reserve(filters == null ? new MarshalledObject[0] : filters);
            socket.begin(SerialFilters.Part.NOTIFICATION_FILTER);
            Integer[] added = super.addNotificationListeners(names, filters, delegates);
            listeners.addFilters(listened, sent.reserved());
            isDone = true;
            return added;
        } finally {
            if (!isDone) {
                listeners.release(sent.reserved());
                for (ObjectName name : listened) {
                    listeners.remove(name, 1);
                }
            }
        }
    }

    @Override
    public void removeNotificationListeners(ObjectName name, Integer[] identifiers, Subject delegate)
            throws InstanceNotFoundException, ListenerNotFoundException, IOException {
        if (viewer.mayExist(name)) {
            super.removeNotificationListeners(name, identifiers, delegate);
            listeners.remove(name, identifiers.length);
            return;
        }
        // What was added while it existed is removed all the same.
        try {
            super.removeNotificationListeners(name, identifiers, delegate);
            listeners.remove(name, identifiers.length);
        } catch (InstanceNotFoundException | ListenerNotFoundException error) {
            // The answer is the same.
        }
        throw new InstanceNotFoundException("The MBean " + name + " is not registered.");
    }

    @Override
    public NotificationResult fetchNotifications(long first, int most, long milliseconds) throws IOException {
        ClientSocket.current().take(fetches, "requests for notifications");
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.min(milliseconds, MAX_FETCH_MILLISECONDS));
        long begin = first;
        while (true) {
            long left = Math.max(0, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
            NotificationResult all = super.fetchNotifications(begin, Math.min(most, MAX_NOTIFICATIONS), left);
            if (all == null) {
                // The session was closed meanwhile, which Java's client learns by this.
                return null;
            }
            TargetedNotification[] fetched = all.getTargetedNotifications();
            Viewer.Received received = viewer.received(fetched);
            // An answer at the moment of a notification that the user may not receive would reveal it.
            if (received.notifications.length > 0 || received.lost > 0 || fetched.length == 0 || left == 0) {
                // From the first number that is still kept, a client knows how many it has missed.
                long earliest = received.lost == 0 ? all.getEarliestSequenceNumber()
                    : Math.min(Math.max(all.getEarliestSequenceNumber(), first + received.lost),
                        all.getNextSequenceNumber());
                return new NotificationResult(earliest, all.getNextSequenceNumber(), received.notifications);
            }
            begin = all.getNextSequenceNumber();
        }
    }
}
