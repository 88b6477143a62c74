package amqp.gateway.jmx;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.security.GeneralSecurityException;
import javax.management.MBeanServer;
import javax.net.ServerSocketFactory;
import javax.net.SocketFactory;
import py4j.CallbackClient;
import py4j.Gateway;
import py4j.GatewayServer;

/**
 * The gateway's virtual machine: a child of a Python process, which it does not outlive.
 *
 * <p>Settings come on standard input, then {@link Batches}; its end is the end of the parent. One line on standard output answers:
 * {@code listening BRIDGE-PORT JMX-PORT}, {@code cannot-listen REASON} or {@code cannot-use-tls REASON}. Standard error is a log.
 */
public final class Main {
    private static final int STATUS_CANNOT_LISTEN = 10;
    private static final int STATUS_CANNOT_USE_TLS = 11;

    private Main() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        // Standard output is for answers to Python: nothing that a library prints may get between them.
        System.setOut(System.err);
        Settings settings = Settings.read(System.in);
        // Before anything that may hang or fail: from here on the process ends with its parent.
        Batches batches = new Batches();
        new Thread(() -> endWithParent(batches), "reader of batches").start();
        CallbackClient python = callbackClient(settings);
        MBeanServer mbeans = ManagementFactory.getPlatformMBeanServer();
        SignsOfLife life = new SignsOfLife(settings.silenceMilliseconds);
        ManagedObjects objects = new ManagedObjects(mbeans, settings.domain, life, settings.notificationBuffer);
        Backend backend = backend(python);
        Operations operations = new Operations(objects, backend);
        Connector connector = connector(settings, mbeans, backend, objects, operations, answers);
        ServerSocket door = new ServerSocket();
        Bridge bridge = new Bridge(objects, batches, connector, operations, door, life);
        new Thread(() -> batches.carryOut(bridge::carryOut), "batches").start();
        GatewayServer server = bridgeServer(bridge, door, python, settings);
        server.start();
        answers.println("listening " + server.getListeningPort() + " " + connector.port());
        answers.flush();
    }

    private static Connector connector(
            Settings settings, MBeanServer mbeans, Backend backend, ManagedObjects objects, Operations operations,
            PrintStream answers) throws IOException {
        try {
            return new Connector(settings, mbeans, backend, objects, operations);
        } catch (GeneralSecurityException error) {
            answers.println("cannot-use-tls " + error.getMessage());
            answers.flush();
            Runtime.getRuntime().halt(STATUS_CANNOT_USE_TLS);
            throw new IOException(error);
        } catch (IOException error) {
            answers.println("cannot-listen " + error.getMessage());
            answers.flush();
            Runtime.getRuntime().halt(STATUS_CANNOT_LISTEN);
            throw error;
        }
    }

    private static void endWithParent(Batches batches) {
        batches.readAll(System.in);
        // Nobody else is left to remove it (temporary_folders.py); what has more in it stays.
        File temporary = new File(System.getProperty("java.io.tmpdir"));
        new File(temporary, "lock").delete();
        temporary.delete();
        Runtime.getRuntime().halt(0);
    }

    private static CallbackClient callbackClient(Settings settings) {
        return new CallbackClient(
            settings.backendPort, InetAddress.getLoopbackAddress(), settings.backendToken,
            CallbackClient.DEFAULT_MIN_CONNECTION_TIME, CallbackClient.DEFAULT_MIN_CONNECTION_TIME_UNIT,
            SocketFactory.getDefault(), true, settings.backendMilliseconds);
    }

    private static Backend backend(CallbackClient python) {
        Gateway gateway = new Gateway(null, python);
        return (Backend) python.getPythonServerEntryPoint(gateway, new Class<?>[] {Backend.class});
    }

    /** Python's way in: an unused port of the loopback, and a token to show. */
    private static GatewayServer bridgeServer(
            Bridge bridge, ServerSocket door, CallbackClient python, Settings settings) {
        return new GatewayServer.GatewayServerBuilder(bridge)
            .javaAddress(InetAddress.getLoopbackAddress())
            .javaPort(0)
            .callbackClient(python)
            .authToken(settings.bridgeToken)
            .serverSocketFactory(new OneSocket(door))
            .build();
    }

    /** Gives the one socket that we can close. */
    private static final class OneSocket extends ServerSocketFactory {
        private final ServerSocket socket;

        OneSocket(ServerSocket socket) {
            this.socket = socket;
        }

        @Override
        public ServerSocket createServerSocket() {
            return socket;
        }

        @Override
        public ServerSocket createServerSocket(int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ServerSocket createServerSocket(int port, int backlog) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ServerSocket createServerSocket(int port, int backlog, InetAddress address) {
            throw new UnsupportedOperationException();
        }
    }
}
