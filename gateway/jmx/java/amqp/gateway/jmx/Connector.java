package amqp.gateway.jmx;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.rmi.AlreadyBoundException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.RMIServerSocketFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import javax.management.MBeanServer;
import javax.management.remote.JMXConnectorServer;
import javax.management.remote.JMXServiceURL;
import javax.management.remote.rmi.RMIConnectorServer;
import javax.management.remote.rmi.RMIJRMPServerImpl;

/**
 * The JMX connector: registry and objects on one port of one address.
 *
 * <p>No JNDI is involved, which a small Java runtime may lack. What clients send is held against a list of
 * classes ({@link SerialFilters}), and everything they ask for passes the {@link Guard}.
 */
final class Connector {
    private static final String NAME = "jmxrmi";
    private static final int BACKLOG = 50;
    private static final long RETRY_MILLISECONDS = 50;
    private static final long NAME_CHECK_SECONDS = 1;

    private final ServerSocket socket;
    private final Registry registry;
    private final RMIJRMPServerImpl rmiServer;
    private final RMIConnectorServer server;
    private final ScheduledExecutorService nameCheck =
        Executors.newSingleThreadScheduledExecutor(Connector::daemon);

    /**
     * Listens, so that no other process can take the port; clients find the connector only after {@link #open}.
     *
     * @throws IOException the address cannot be listened on; a port that is taken is tried for a while
     */
    Connector(Settings settings, MBeanServer mbeans, Backend backend, Operations operations) throws IOException {
        configureRmi(settings);
        socket = listen(settings);
        // RMI shares a port among objects whose factory is the same one.
        RMIServerSocketFactory factory = port -> socket;
        int port = socket.getLocalPort();
        registry = LocateRegistry.createRegistry(port, null, factory);
        Map<String, Object> environment = new HashMap<>();
        environment.put(JMXConnectorServer.AUTHENTICATOR, new Authenticator(backend, this::sessions));
        environment.put(RMIConnectorServer.CREDENTIALS_FILTER_PATTERN, SerialFilters.CREDENTIALS);
        environment.put(RMIConnectorServer.SERIAL_FILTER_PATTERN, SerialFilters.REQUESTS);
        environment.put("jmx.remote.x.notification.buffer.size", String.valueOf(settings.notificationBuffer));
        rmiServer = new RMIJRMPServerImpl(port, null, factory, environment);
        JMXServiceURL address = new JMXServiceURL("rmi", settings.hostname, port);
        server = new RMIConnectorServer(address, environment, rmiServer, mbeans);
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
        bindName();
        // Any process of this machine may unbind a name of a registry; binding another is refused by the filter.
        nameCheck.scheduleWithFixedDelay(this::bindName, NAME_CHECK_SECONDS, NAME_CHECK_SECONDS, TimeUnit.SECONDS);
    }

    /** How many clients are logged in. */
    int sessions() {
        return server.getConnectionIds().length;
    }

    private void bindName() {
        try {
            registry.bind(NAME, rmiServer.toStub());
        } catch (AlreadyBoundException error) {
            // As it should be.
        } catch (IOException error) {
            System.err.println("the name " + NAME + " cannot be bound: " + error);
        }
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "registry-name");
        thread.setDaemon(true);
        return thread;
    }

    private static void configureRmi(Settings settings) {
        System.setProperty("java.rmi.server.hostname", settings.hostname);
        // Clients only look names up, which sends no object: whoever binds one would replace the connector.
        System.setProperty("sun.rmi.registry.registryFilter", "!*");
        // A client closes a connection that it has not used for 15 s; one that is silent for longer is lost.
        System.setProperty("sun.rmi.transport.tcp.readTimeout", "60000");
        // A thread for each request that is under way: operations, the clients' waiting for notifications, reads.
        System.setProperty("sun.rmi.transport.tcp.maxConnectionThreads", "256");
    }

    private static ServerSocket listen(Settings settings) throws IOException {
        InetSocketAddress address =
            new InetSocketAddress(InetAddress.getByName(settings.address), settings.port);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.listenMilliseconds);
        while (true) {
            ServerSocket candidate = new LimitedServerSocket();
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
