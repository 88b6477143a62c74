import java.util.HashMap;
import java.util.Map;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import javax.rmi.ssl.SslRMIClientSocketFactory;

/** Reads an attribute as any client of JMX over TLS does; prints it, or the exceptions that came. */
public final class TlsClient {
    private TlsClient() {
    }

    public static void main(String[] arguments) {
        Map<String, Object> environment = new HashMap<>();
        environment.put(JMXConnector.CREDENTIALS, new String[] {arguments[1], arguments[2]});
        environment.put("com.sun.jndi.rmi.factory.socket", new SslRMIClientSocketFactory());
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url), environment)) {
            System.out.println("read " + connector.getMBeanServerConnection()
                .getAttribute(new ObjectName("java.lang:type=Memory"), "Verbose"));
        } catch (Exception error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                System.out.println(cause.getClass().getName() + ": " + cause.getMessage());
            }
        }
        System.exit(0);
    }
}
