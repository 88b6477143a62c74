package amqp.gateway.jmx;

import java.io.IOException;
import java.rmi.server.RMIClientSocketFactory;
import java.rmi.server.RMIServerSocketFactory;
import java.rmi.server.UnicastRemoteObject;
import java.util.Map;
import java.util.regex.Matcher;
import javax.management.remote.rmi.RMIConnection;
import javax.management.remote.rmi.RMIJRMPServerImpl;
import javax.security.auth.Subject;

/** What clients log in to: it makes a {@link Session} for each. */
final class SessionServer extends RMIJRMPServerImpl {
    private static final String UNKNOWN = "//0\\.0\\.0\\.0 ";

    private final int port;
    private final RMIClientSocketFactory clientFactory;
    private final RMIServerSocketFactory factory;
    private final Map<String, Object> environment;
    private final Sessions sessions;
    private final Denials denials;
    private final ManagedObjects objects;

    /** @param clientFactory how clients connect, which is sent to them; null for plain text */
    SessionServer(int port, RMIClientSocketFactory clientFactory, RMIServerSocketFactory factory,
            Map<String, Object> environment, Sessions sessions, Denials denials, ManagedObjects objects)
            throws IOException {
        super(port, clientFactory, factory, environment);
        this.port = port;
        this.clientFactory = clientFactory;
        this.factory = factory;
        this.environment = environment;
        this.sessions = sessions;
        this.denials = denials;
        this.objects = objects;
    }

    /** As the class above does, with a filter that reports. */
    @Override
    protected void export() throws IOException {
        UnicastRemoteObject.exportObject(this, port, clientFactory, factory, new CredentialsFilter(denials));
    }

    /** Logs a client in; what keeps a login from being decided is no refusal, but an {@code IOException}. */
    @Override
    public RMIConnection newClient(Object credentials) throws IOException {
        try {
            return super.newClient(credentials);
        } catch (Authenticator.UndecidedException error) {
            throw new IOException(error.getMessage());
        }
    }

    /** The id of a connection with the address of its client, which RMI does not know ({@link ClientSocket}). */
    static String withHost(String connectionId) {
        String host = ClientSocket.currentHost();
        return connectionId.replaceFirst(
            UNKNOWN, Matcher.quoteReplacement("//" + (host.contains(":") ? "[" + host + "]" : host) + " "));
    }

    @Override
    protected RMIConnection makeClient(String connectionId, Subject subject) throws IOException {
        Session session = new BoundSession(this, withHost(connectionId), subject, environment, sessions, objects, denials);
        try {
            sessions.add(session);
        } catch (SecurityException error) {
            denials.report(Denials.Kind.LOGIN, session.user, session.host, error.getMessage());
            throw error;
        }
        UnicastRemoteObject.exportObject(session, port, clientFactory, factory, new RequestFilter(session, denials));
        return session;
    }
}
