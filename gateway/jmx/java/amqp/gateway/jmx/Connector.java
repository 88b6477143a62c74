package amqp.gateway.jmx;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.RMIClientSocketFactory;
import java.rmi.server.RMIServerSocketFactory;
import java.security.GeneralSecurityException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.logging.Logger;
import javax.management.MBeanServer;
import javax.management.remote.JMXConnectorServer;
import javax.management.remote.JMXServiceURL;
import javax.management.remote.rmi.RMIConnectorServer;
import javax.rmi.ssl.SslRMIClientSocketFactory;

/**
 * The JMX connector: registry and objects on one port of one address.
 *
 * <p>No JNDI is involved, which a small Java runtime may lack. What clients send is held against a list of
 * classes ({@link SerialFilters}), and everything they ask for passes the {@link Guard}.
 */
final class Connector {
    private static final String NAME = "jmxrmi";
    private static final int BACKLOG = 256;
    private static final long RETRY_MILLISECONDS = 50;
    private static final String LEASE_MILLISECONDS = "12000";
    private static final String LEASE_CHECK_MILLISECONDS = "3000";
    /** Held here, because the log manager forgets loggers, and their filters with them. */
    private static final Logger MESSAGES = Logger.getLogger("javax.management.remote.misc");
    private static final String OF_CLOSED_SESSIONS = "com.sun.jmx.remote.internal.ServerCommunicatorAdmin";

    private final Sessions sessions = new Sessions();
    private final Connections connections = new Connections();
    private final ClientServerSocket socket;
    private final Registry registry;
    private final SessionServer sessionServer;
    private final RMIConnectorServer server;

    /**
     * Listens, so that no other process can take the port; clients find the connector only after {@link #open}.
     *
     * @throws IOException the address cannot be listened on; a port that is taken is tried for a while
     * @throws GeneralSecurityException this Java cannot use the key or a certificate of TLS
     */
    Connector(Settings settings, MBeanServer mbeans, Backend backend, ManagedObjects objects, Operations operations)
            throws IOException, GeneralSecurityException {
        configureRmi(settings);
        Tls tls = settings.tls == null ? null : new Tls(settings.tls);
        Denials denials = new Denials(backend);
        socket = listen(settings, connections, tls, denials);
        connections.watch();
        // It warns of each request that meets the end of its session, as of a client that closes while it listens.
        MESSAGES.setFilter(entry -> !OF_CLOSED_SESSIONS.equals(entry.getSourceClassName()));
        // RMI shares a port among objects whose factory is the same one.
        RMIServerSocketFactory factory = port -> socket;
        RMIClientSocketFactory clientFactory = tls == null ? null : new SslRMIClientSocketFactory();
        // RMI writes the port that it is said to listen on into references; the factory has the one it listens on.
        int port = settings.advertisedPort == 0 ? socket.getLocalPort() : settings.advertisedPort;
        RefusedCalls.watch(denials);
        registry = LocateRegistry.createRegistry(port, clientFactory, factory);
        Map<String, Object> environment = new HashMap<>();
        environment.put(JMXConnectorServer.AUTHENTICATOR, new Authenticator(backend, sessions, denials));
        environment.put("jmx.remote.x.notification.buffer.size", String.valueOf(settings.notificationBuffer));
        sessionServer = new SessionServer(port, clientFactory, factory, environment, sessions, denials, objects);
        JMXServiceURL address = new JMXServiceURL("rmi", settings.hostname, port);
        server = new RMIConnectorServer(address, environment, sessionServer, mbeans) {
            @Override
            protected void connectionOpened(String id, String message, Object data) {
                super.connectionOpened(SessionServer.withHost(id), message, data);
            }
        };
        server.setMBeanServerForwarder(Guard.of(settings.domain, operations));
    }

    int port() {
        return socket.getLocalPort();
    }

    /** Lets clients in. */
    synchronized void open() throws IOException {
        if (server.isActive()) {
            return;
        }
        server.start();
        // We may; the registry refuses that to those who connect (ClientSocket).
        registry.rebind(NAME, sessionServer.toStub());
    }

    /**
     * Uses another key and other certificates for connections that are accepted from now on.
     *
     * @throws GeneralSecurityException this Java cannot use them; the former ones are used
     */
    void renew(TlsSettings settings) throws IOException, GeneralSecurityException {
        socket.renew(new Tls(settings));
    }

    /** How many clients are logged in. */
    int sessions() {
        return sessions.count();
    }

    private static void configureRmi(Settings settings) {
        System.setProperty("java.rmi.server.hostname", settings.hostname);
        System.setProperty("sun.rmi.registry.registryFilter", SerialFilters.REGISTRY);
        System.setProperty("sun.rmi.transport.dgcFilter", SerialFilters.COLLECTOR);
        // Java's client renews its lease in half of the time; the session of one that does not has ended.
        System.setProperty("java.rmi.dgc.leaseValue", LEASE_MILLISECONDS);
        System.setProperty("sun.rmi.dgc.checkInterval", LEASE_CHECK_MILLISECONDS);
        // Connections watches them itself, and bounds how many there are.
        System.setProperty("sun.rmi.transport.tcp.readTimeout", "60000");
        System.setProperty("sun.rmi.transport.tcp.maxConnectionThreads", "512");
    }

    private static ClientServerSocket listen(Settings settings, Connections connections, Tls tls, Denials denials)
            throws IOException {
        InetSocketAddress address =
            new InetSocketAddress(InetAddress.getByName(settings.address), settings.port);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.listenMilliseconds);
        while (true) {
            ClientServerSocket candidate = new ClientServerSocket(connections, tls, denials);
            try {
                candidate.setReuseAddress(true);
                candidate.bind(address, BACKLOG);
                return candidate;
            } catch (BindException error) {
                candidate.close();
                // Java has one exception for a port that is taken and for one that is not permitted.
                boolean taken = String.valueOf(error.getMessage()).contains("in use");
                if (!taken || System.nanoTime() - end > 0) {
                    throw error;
                }
                pause();
            }
        }
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(RETRY_MILLISECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", error);
        }
    }
}
