import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.rmi.registry.LocateRegistry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import javax.management.remote.rmi.RMIConnection;
import javax.management.remote.rmi.RMIServer;
import javax.rmi.ssl.SslRMIClientSocketFactory;

/**
 * A client of JMX over TLS, with the certificate that the options of its virtual machine name.
 *
 * <p>{@code login PORT [USER:PASSWORD | -]...} logs in once for each argument, without credentials for {@code -}.
 * {@code names PORT PATTERN} prints the names of MBeans that it sees. {@code keep PORT FILE} logs in, writes what
 * finds its session to a file, and uses the session for each octet of standard input, until that ends. {@code use FILE
 * [METHOD]} calls each method, or one, of a session that another client keeps.
 */
public final class CertificateClient {
    private static final int CONNECTIONS = 4;

    private CertificateClient() {
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "login":
                for (String credentials : Arrays.asList(arguments).subList(2, arguments.length)) {
                    System.out.println(login(arguments[1], credentials));
                }
                break;
            case "names":
                names(arguments[1], arguments[2]);
                break;
            case "keep":
                keep(Integer.parseInt(arguments[1]), Path.of(arguments[2]));
                break;
            default:
                use(Path.of(arguments[1]), arguments.length > 2 ? arguments[2] : "");
        }
        System.exit(0);
    }

    private static JMXConnector connect(String port, String credentials) throws Exception {
        Map<String, Object> environment = new HashMap<>();
        if (!credentials.equals("-")) {
            environment.put(JMXConnector.CREDENTIALS, credentials.split(":", 2));
        }
        environment.put("com.sun.jndi.rmi.factory.socket", new SslRMIClientSocketFactory());
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi";
        return JMXConnectorFactory.connect(new JMXServiceURL(url), environment);
    }

    /** The user of the connection, which reads over several connections of TLS at once; or the exceptions that came. */
    private static String login(String port, String credentials) {
        try (JMXConnector connector = connect(port, credentials)) {
            MBeanServerConnection connection = connector.getMBeanServerConnection();
            List<Callable<Object>> reads = Collections.nCopies(
                CONNECTIONS, () -> connection.getAttribute(new ObjectName("java.lang:type=Memory"), "Verbose"));
            ExecutorService threads = Executors.newFixedThreadPool(CONNECTIONS);
            for (Future<Object> read : threads.invokeAll(reads)) {
                read.get();
            }
            threads.shutdown();
            // protocol://host user number
            return "in as " + connector.getConnectionId().split(" ")[1];
        } catch (Exception error) {
            return causes(error);
        }
    }

    private static void names(String port, String pattern) throws Exception {
        try (JMXConnector connector = connect(port, "-")) {
            connector.getMBeanServerConnection().queryNames(new ObjectName(pattern), null).stream()
                .map(ObjectName::getCanonicalName).sorted().forEach(System.out::println);
        }
    }

    private static void keep(int port, Path file) throws Exception {
        RMIServer server = (RMIServer) LocateRegistry
            .getRegistry("127.0.0.1", port, new SslRMIClientSocketFactory()).lookup("jmxrmi");
        RMIConnection connection = server.newClient(null);
        try (ObjectOutputStream stream = new ObjectOutputStream(Files.newOutputStream(file))) {
            stream.writeObject(connection);
        }
        System.out.println("kept");
        while (System.in.read() >= 0) {
            System.out.println(call(() -> connection.getDefaultDomain(null)));
        }
    }

    private static void use(Path file, String only) throws Exception {
        RMIConnection connection;
        try (ObjectInputStream stream = new ObjectInputStream(Files.newInputStream(file))) {
            connection = (RMIConnection) stream.readObject();
        }
        List<Callable<String>> calls = new ArrayList<>();
        for (Method method : RMIConnection.class.getMethods()) {
            if (only.isEmpty() || method.getName().equals(only)) {
                calls.add(() -> method.getName() + ": " + call(() -> method.invoke(connection, nothing(method))));
            }
        }
        if (only.isEmpty()) {
            calls.add(() -> "with an argument: "
                + call(() -> connection.getMBeanInfo(new ObjectName("java.lang:type=Memory"), null)));
        }
        ExecutorService threads = Executors.newFixedThreadPool(calls.size());
        for (Future<String> answer : threads.invokeAll(calls)) {
            System.out.println(answer.get());
        }
        threads.shutdown();
    }

    /** Arguments that no filter of deserialisation sees. */
    private static Object[] nothing(Method method) {
        Object[] arguments = new Object[method.getParameterCount()];
        for (int index = 0; index < arguments.length; index++) {
            Class<?> type = method.getParameterTypes()[index];
            arguments[index] = type == int.class ? (Object) 0 : type == long.class ? (Object) 0L : null;
        }
        return arguments;
    }

    private static String call(Callable<Object> attempt) {
        try {
            return "returned " + attempt.call();
        } catch (InvocationTargetException error) {
            return causes(error.getCause());
        } catch (Exception error) {
            return causes(error);
        }
    }

    private static String causes(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(cause.toString().replace('\n', ' ')).append("; ");
        }
        return text.toString();
    }
}
