package amqp.gateway.jmx;

import java.io.IOException;
import java.rmi.MarshalledObject;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
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
import javax.security.auth.Subject;

/**
 * A session whose calls come by connections that have proved the subject of the certificate that the login came with.
 *
 * <p>RMI opens a connection for each call that is under way, and finds the session by a number that cannot be
 * guessed. Who learns it all the same needs the certificate, too. Every method of {@code RMIConnection} is
 * here: the filter of a request ({@link RequestFilter}) does not see those whose arguments are all null or numbers.
 */
// MarshalledObject is raw in the methods of RMIConnectionImpl.
@SuppressWarnings("rawtypes")
final class BoundSession extends Session {
    private static final String OTHER_CERTIFICATE =
        "the certificate of the connection has ended, or is not that of the login: log in again";

    /** Of the login, in DER; null where it came without a certificate. */
    private final byte[] subject;

    BoundSession(SessionServer server, String connectionId, Subject user, Map<String, Object> environment,
            Sessions sessions, ManagedObjects objects, Denials denials) {
        super(server, connectionId, user, environment, sessions, objects, denials);
        this.subject = ClientSocket.current().subject();
    }

    @Override
    void requireClient(ClientSocket socket) {
        if (!Arrays.equals(subject, socket.subject())) {
            denials.report(Denials.Kind.REQUEST, user, socket.host(), OTHER_CERTIFICATE);
            socket.delay(Authenticator.FAILURE_MILLISECONDS);
            throw new SecurityException(OTHER_CERTIFICATE);
        }
    }

    /** Checks the connection that a call came by; a call of this virtual machine itself came by none. */
    private void checkClient() {
        ClientSocket socket = ClientSocket.currentOrNull();
        if (socket != null) {
            requireClient(socket);
        }
    }

    @Override
    public String getConnectionId() throws IOException {
        checkClient();
        return super.getConnectionId();
    }

    @Override
    public void close() throws IOException {
        checkClient();
        super.close();
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, Subject delegate) throws
            ReflectionException, InstanceAlreadyExistsException, MBeanRegistrationException, MBeanException,
            NotCompliantMBeanException, IOException {
        checkClient();
        return super.createMBean(className, name, delegate);
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, ObjectName loader, Subject delegate) throws
            ReflectionException, InstanceAlreadyExistsException, MBeanRegistrationException, MBeanException,
            NotCompliantMBeanException, InstanceNotFoundException, IOException {
        checkClient();
        return super.createMBean(className, name, loader, delegate);
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, MarshalledObject parameters,
            String[] signature, Subject delegate) throws ReflectionException, InstanceAlreadyExistsException,
            MBeanRegistrationException, MBeanException, NotCompliantMBeanException, IOException {
        checkClient();
        return super.createMBean(className, name, parameters, signature, delegate);
    }

    @Override
    public ObjectInstance createMBean(String className, ObjectName name, ObjectName loader,
            MarshalledObject parameters, String[] signature, Subject delegate) throws ReflectionException,
            InstanceAlreadyExistsException, MBeanRegistrationException, MBeanException, NotCompliantMBeanException,
            InstanceNotFoundException, IOException {
        checkClient();
        return super.createMBean(className, name, loader, parameters, signature, delegate);
    }

    @Override
    public void unregisterMBean(ObjectName name, Subject delegate)
            throws InstanceNotFoundException, MBeanRegistrationException, IOException {
        checkClient();
        super.unregisterMBean(name, delegate);
    }

    @Override
    public ObjectInstance getObjectInstance(ObjectName name, Subject delegate)
            throws InstanceNotFoundException, IOException {
        checkClient();
        return super.getObjectInstance(name, delegate);
    }

    @Override
    public Set<ObjectInstance> queryMBeans(ObjectName name, MarshalledObject query, Subject delegate)
            throws IOException {
        checkClient();
        return super.queryMBeans(name, query, delegate);
    }

    @Override
    public Set<ObjectName> queryNames(ObjectName name, MarshalledObject query, Subject delegate)
            throws IOException {
        checkClient();
        return super.queryNames(name, query, delegate);
    }

    @Override
    public boolean isRegistered(ObjectName name, Subject delegate) throws IOException {
        checkClient();
        return super.isRegistered(name, delegate);
    }

    @Override
    public Integer getMBeanCount(Subject delegate) throws IOException {
        checkClient();
        return super.getMBeanCount(delegate);
    }

    @Override
    public Object getAttribute(ObjectName name, String attribute, Subject delegate) throws MBeanException,
            AttributeNotFoundException, InstanceNotFoundException, ReflectionException, IOException {
        checkClient();
        return super.getAttribute(name, attribute, delegate);
    }

    @Override
    public AttributeList getAttributes(ObjectName name, String[] attributes, Subject delegate)
            throws InstanceNotFoundException, ReflectionException, IOException {
        checkClient();
        return super.getAttributes(name, attributes, delegate);
    }

    @Override
    public void setAttribute(ObjectName name, MarshalledObject attribute, Subject delegate)
            throws InstanceNotFoundException, AttributeNotFoundException, InvalidAttributeValueException,
            MBeanException, ReflectionException, IOException {
        checkClient();
        super.setAttribute(name, attribute, delegate);
    }

    @Override
    public AttributeList setAttributes(ObjectName name, MarshalledObject attributes, Subject delegate)
            throws InstanceNotFoundException, ReflectionException, IOException {
        checkClient();
        return super.setAttributes(name, attributes, delegate);
    }

    @Override
    public Object invoke(ObjectName name, String operation, MarshalledObject parameters, String[] signature,
            Subject delegate) throws InstanceNotFoundException, MBeanException, ReflectionException, IOException {
        checkClient();
        return super.invoke(name, operation, parameters, signature, delegate);
    }

    @Override
    public String getDefaultDomain(Subject delegate) throws IOException {
        checkClient();
        return super.getDefaultDomain(delegate);
    }

    @Override
    public String[] getDomains(Subject delegate) throws IOException {
        checkClient();
        return super.getDomains(delegate);
    }

    @Override
    public MBeanInfo getMBeanInfo(ObjectName name, Subject delegate)
            throws InstanceNotFoundException, IntrospectionException, ReflectionException, IOException {
        checkClient();
        return super.getMBeanInfo(name, delegate);
    }

    @Override
    public boolean isInstanceOf(ObjectName name, String className, Subject delegate)
            throws InstanceNotFoundException, IOException {
        checkClient();
        return super.isInstanceOf(name, className, delegate);
    }

    @Override
    public void addNotificationListener(ObjectName name, ObjectName listener, MarshalledObject filter,
            MarshalledObject handback, Subject delegate) throws InstanceNotFoundException, IOException {
        checkClient();
        super.addNotificationListener(name, listener, filter, handback, delegate);
    }

    @Override
    public void removeNotificationListener(ObjectName name, ObjectName listener, Subject delegate)
            throws ListenerNotFoundException {
        checkClient();
        super.removeNotificationListener(name, listener, delegate);
    }

    @Override
    public void removeNotificationListener(ObjectName name, ObjectName listener, MarshalledObject filter,
            MarshalledObject handback, Subject delegate) throws ListenerNotFoundException {
        checkClient();
        super.removeNotificationListener(name, listener, filter, handback, delegate);
    }

    @Override
    public Integer[] addNotificationListeners(ObjectName[] names, MarshalledObject[] filters, Subject[] delegates)
            throws InstanceNotFoundException, IOException {
        checkClient();
        return super.addNotificationListeners(names, filters, delegates);
    }

    @Override
    public void removeNotificationListeners(ObjectName name, Integer[] identifiers, Subject delegate)
            throws InstanceNotFoundException, ListenerNotFoundException, IOException {
        checkClient();
        super.removeNotificationListeners(name, identifiers, delegate);
    }

    @Override
    public NotificationResult fetchNotifications(long first, int most, long milliseconds) throws IOException {
        checkClient();
        return super.fetchNotifications(first, most, milliseconds);
    }
}
