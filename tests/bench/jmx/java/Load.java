import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanServerConnection;
import javax.management.Notification;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * A JMX client that times what it asks for; times are {@code System.nanoTime}, the same clock in all processes of a machine.
 *
 * <p>Arguments: HOST:PORT and a user's name. Standard input: the password, then one request a line, words separated by a
 * tab; each is answered by one line: {@code ok}, a tab and a number or text, or {@code failed} and why.
 *
 * <ul>
 *   <li>{@code target WORD PATTERN}: WORD stands for the MBeans that match, in the order of their names; how many there are;
 *   <li>{@code get WORD ATTRIBUTE COUNT}: reads so often, one MBean after the other; nanoseconds;
 *   <li>{@code getAll WORD ATTRIBUTE,... COUNT}: the same with all these attributes at a time;
 *   <li>{@code read NAME ATTRIBUTE,...}: the values, separated by commas;
 *   <li>{@code await NAME ATTRIBUTE VALUE}: looks once a millisecond until it is that; when it was;
 *   <li>{@code invoke NAME OPERATION NUMBER}: what the operation returns;
 *   <li>{@code listen NAME}: from now on each notification of this MBean is a line {@code notification TIME MESSAGE}.
 * </ul>
 */
public final class Load {
    private static final long DEADLINE_NANOSECONDS = 120_000_000_000L;

    private final MBeanServerConnection server;
    private final Map<String, ObjectName[]> targets = new HashMap<>();

    private Load(MBeanServerConnection server) {
        this.server = server;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String[] credentials = {arguments[1], input.readLine()};
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://" + arguments[0] + "/jmxrmi");
        try (JMXConnector connector =
                JMXConnectorFactory.connect(url, Map.of(JMXConnector.CREDENTIALS, credentials))) {
            Load load = new Load(connector.getMBeanServerConnection());
            say("ok\tconnected");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                try {
                    say("ok\t" + load.answer(line.split("\t")));
                } catch (JMException | InterruptedException | RuntimeException error) {
                    say("failed\t" + error);
                }
            }
        }
        System.exit(0);
    }

    private Object answer(String[] request) throws JMException, IOException, InterruptedException {
        switch (request[0]) {
            case "target":
                TreeSet<ObjectName> found = new TreeSet<>(server.queryNames(new ObjectName(request[2]), null));
                targets.put(request[1], found.toArray(new ObjectName[0]));
                return found.size();
            case "get":
                return get(targets.get(request[1]), request[2], Integer.parseInt(request[3]));
            case "getAll":
                return getAll(targets.get(request[1]), request[2].split(","), Integer.parseInt(request[3]));
            case "read":
                return read(new ObjectName(request[1]), request[2].split(","));
            case "await":
                return await(new ObjectName(request[1]), request[2], request[3]);
            case "invoke":
                return server.invoke(
                    new ObjectName(request[1]), request[2], new Object[] {Integer.valueOf(request[3])},
                    new String[] {"int"});
            case "listen":
                server.addNotificationListener(new ObjectName(request[1]), (told, handback) -> tell(told), null, null);
                return "listening";
            default:
                throw new IllegalArgumentException("no such request: " + request[0]);
        }
    }

    private long get(ObjectName[] names, String attribute, int count) throws JMException, IOException {
        long began = System.nanoTime();
        for (int number = 0; number < count; number++) {
            server.getAttribute(names[number % names.length], attribute);
        }
        return System.nanoTime() - began;
    }

    private long getAll(ObjectName[] names, String[] attributes, int count) throws JMException, IOException {
        long began = System.nanoTime();
        for (int number = 0; number < count; number++) {
            server.getAttributes(names[number % names.length], attributes);
        }
        return System.nanoTime() - began;
    }

    private String read(ObjectName name, String[] attributes) throws JMException, IOException {
        List<Attribute> found = server.getAttributes(name, attributes).asList();
        String[] values = new String[found.size()];
        for (int number = 0; number < values.length; number++) {
            values[number] = String.valueOf(found.get(number).getValue());
        }
        return String.join(",", values);
    }

    private long await(ObjectName name, String attribute, String value)
            throws JMException, IOException, InterruptedException {
        long end = System.nanoTime() + DEADLINE_NANOSECONDS;
        while (System.nanoTime() < end) {
            if (String.valueOf(server.getAttribute(name, attribute)).equals(value)) {
                return System.nanoTime();
            }
            Thread.sleep(1);
        }
        throw new IllegalStateException(name + " " + attribute + " has not become " + value);
    }

    private static void tell(Notification told) {
        say("notification\t" + System.nanoTime() + "\t" + told.getMessage());
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
