import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.AttributeChangeNotification;
import javax.management.AttributeList;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServerConnection;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.TabularData;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * A plain JMX client: nothing but the JDK's own connector, so that what it shows is what any Java program sees.
 *
 * <p>Arguments: HOST:PORT and a user's name. Standard input: the password, then one request a line, words separated by a
 * tab, each as in a URL (%09 is a tab); each request is answered by one line of JSON on standard output.
 *
 * <ul>
 *   <li>{@code list PATTERN}: the names of the MBeans, ascending;
 *   <li>{@code read NAME}: each attribute with the Java class of its value and the value;
 *   <li>{@code listen NAME}: from now on each notification of this MBean is a line of its own;
 *   <li>{@code set NAME ATTRIBUTE VALUE};
 *   <li>{@code setAll NAME [ATTRIBUTE VALUE]...}: all at once; the names of those that the server says were set;
 *   <li>{@code invoke NAME OPERATION [VALUE]...}: with the signature that the MBean describes, without one where it
 *       describes no such operation to this user; what it returns.
 * </ul>
 *
 * <p>A VALUE is two words, a type and a text: {@code long 5}, {@code integer 5} (a BigInteger), {@code double 0.5},
 * {@code boolean true}, {@code text hello}, {@code name domain:key=value} (an ObjectName), and {@code null} with an empty
 * text. What fails is told as {@code error}, and in {@code thrown} by class and message, causes behind it.
 */
public final class JmxClient {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private JmxClient() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String[] credentials = {arguments[1], input.readLine()};
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://" + arguments[0] + "/jmxrmi");
        try (JMXConnector connector =
                JMXConnectorFactory.connect(url, Map.of(JMXConnector.CREDENTIALS, credentials))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            say(Map.of("connected", connector.getConnectionId()));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                answer(server, words(line));
            }
        } catch (IOException | SecurityException failure) {
            say(Map.of("failed", failure.toString()));
            System.exit(1);
        }
        System.exit(0);
    }

    private static String[] words(String line) {
        return Arrays.stream(line.split("\t", -1))
            .map(word -> URLDecoder.decode(word, StandardCharsets.UTF_8)).toArray(String[]::new);
    }

    private static void answer(MBeanServerConnection server, String[] request) {
        try {
            ObjectName name = new ObjectName(request[1]);
            switch (request[0]) {
                case "list":
                    TreeSet<String> names = new TreeSet<>();
                    server.queryNames(name, null).forEach(found -> names.add(found.toString()));
                    say(Map.of("names", names));
                    break;
                case "read":
                    say(Map.of("attributes", attributes(server, name)));
                    break;
                case "listen":
                    server.addNotificationListener(name, (told, handback) -> tell(told), null, null);
                    say(Map.of("listening", name.toString()));
                    break;
                case "set":
                    server.setAttribute(name, attributesOf(request).asList().get(0));
                    say(Map.of("set", List.of(request[2])));
                    break;
                case "setAll":
                    List<String> set = new ArrayList<>();
                    server.setAttributes(name, attributesOf(request)).asList()
                        .forEach(attribute -> set.add(attribute.getName()));
                    say(Map.of("set", set));
                    break;
                case "invoke":
                    say(Map.of("returned", shown(invoke(server, name, request))));
                    break;
                default:
                    say(Map.of("error", "no such request: " + request[0]));
            }
        } catch (Exception failure) {
            say(Map.of("error", failure.toString(), "thrown", thrown(failure)));
        }
    }

    /** What stands behind the name of the MBean in {@code set} and {@code setAll}. */
    private static AttributeList attributesOf(String[] request) throws Exception {
        AttributeList attributes = new AttributeList();
        for (int word = 2; word < request.length; word += 3) {
            attributes.add(new Attribute(request[word], value(request[word + 1], request[word + 2])));
        }
        return attributes;
    }

    private static Object invoke(MBeanServerConnection server, ObjectName name, String[] request) throws Exception {
        List<Object> values = new ArrayList<>();
        for (int word = 3; word < request.length; word += 2) {
            values.add(value(request[word], request[word + 1]));
        }
        for (MBeanOperationInfo operation : server.getMBeanInfo(name).getOperations()) {
            if (operation.getName().equals(request[2])) {
                String[] signature = Arrays.stream(operation.getSignature())
                    .map(MBeanParameterInfo::getType).toArray(String[]::new);
                return server.invoke(name, request[2], values.toArray(), signature);
            }
        }
        return server.invoke(name, request[2], values.toArray(), null);
    }

    private static Object value(String type, String text) throws Exception {
        switch (type) {
            case "null":
                return null;
            case "long":
                return Long.valueOf(text);
            case "integer":
                return new BigInteger(text);
            case "double":
                return Double.valueOf(text);
            case "boolean":
                return Boolean.valueOf(text);
            case "text":
                return text;
            case "name":
                return new ObjectName(text);
            default:
                throw new IllegalArgumentException("no such type of values: " + type);
        }
    }

    private static List<Object> thrown(Throwable failure) {
        List<Object> told = new ArrayList<>();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("class", cause.getClass().getName());
            one.put("message", cause.getMessage());
            told.add(one);
        }
        return told;
    }

    private static Map<String, Object> attributes(MBeanServerConnection server, ObjectName name) throws Exception {
        List<String> readable = new ArrayList<>();
        for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
            if (attribute.isReadable()) {
                readable.add(attribute.getName());
            }
        }
        Map<String, Object> values = new LinkedHashMap<>();
        for (Attribute attribute : server.getAttributes(name, readable.toArray(new String[0])).asList()) {
            values.put(attribute.getName(), shown(attribute.getValue()));
        }
        return values;
    }

    /** A value with its Java class. */
    private static Map<String, Object> shown(Object value) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("class", value == null ? null : value.getClass().getTypeName());
        shown.put("value", plain(value));
        return shown;
    }

    private static void tell(Notification told) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("notification", told.getType());
        shown.put("source", String.valueOf(told.getSource()));
        shown.put("message", told.getMessage());
        shown.put("sequence", told.getSequenceNumber());
        shown.put("time", told.getTimeStamp());
        if (told instanceof AttributeChangeNotification) {
            AttributeChangeNotification change = (AttributeChangeNotification) told;
            shown.put("attribute", change.getAttributeName());
            shown.put("old", plain(change.getOldValue()));
            shown.put("new", plain(change.getNewValue()));
        } else if (told instanceof MBeanServerNotification) {
            shown.put("mbean", ((MBeanServerNotification) told).getMBeanName().toString());
        }
        shown.put("data", plain(told.getUserData()));
        say(shown);
    }

    /** The value as maps, lists, texts, numbers and truth values; a date as its ISO 8601 text. */
    private static Object plain(Object value) {
        if (value instanceof CompositeData) {
            CompositeData data = (CompositeData) value;
            Map<String, Object> items = new LinkedHashMap<>();
            data.getCompositeType().keySet().forEach(key -> items.put(key, plain(data.get(key))));
            return items;
        }
        if (value instanceof TabularData) {
            List<Object> rows = new ArrayList<>();
            ((TabularData) value).values().forEach(row -> rows.add(plain(row)));
            return rows;
        }
        if (value instanceof Object[]) {
            List<Object> items = new ArrayList<>();
            for (Object item : (Object[]) value) {
                items.add(plain(item));
            }
            return items;
        }
        if (value instanceof java.util.Date) {
            return ((java.util.Date) value).toInstant().toString();
        }
        return value == null || value instanceof Number || value instanceof Boolean ? value : value.toString();
    }

    private static synchronized void say(Object value) {
        StringBuilder line = new StringBuilder();
        write(value, line);
        OUT.println(line);
    }

    private static void write(Object value, StringBuilder line) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                line.append(separator);
                write(entry.getKey(), line);
                line.append(":");
                write(entry.getValue(), line);
                separator = ",";
            }
            line.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String separator = "[";
            for (Object item : (Collection<?>) value) {
                line.append(separator);
                write(item, line);
                separator = ",";
            }
            line.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            quote((String) value, line);
        } else if (value instanceof Double && !Double.isFinite((Double) value)) {
            quote(value.toString(), line);
        } else {
            line.append(value);
        }
    }

    private static void quote(String text, StringBuilder line) {
        line.append('"');
        for (char c : text.toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\' || c > '~') {
                line.append(String.format("\\u%04x", (int) c));
            } else {
                line.append(c);
            }
        }
        line.append('"');
    }
}
