package amqp.gateway.jmx;

import javax.management.ObjectName;

/** The operation of the Gateway MBean that reads events of the past, which everybody may call. */
final class PastEvents {
    private static final String OPERATION = "eventsSince";
    private static final String TYPE = "Gateway";

    private PastEvents() {
    }

    static boolean includes(ObjectName name, String operation) {
        return OPERATION.equals(operation) && name != null && !name.isPattern()
            && name.getKeyPropertyList().size() == 1 && TYPE.equals(name.getKeyProperty("type"));
    }
}
