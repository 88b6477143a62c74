import java.io.File;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.rmi.Remote;
import java.rmi.RemoteException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.UnicastRemoteObject;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.StreamHandler;
import javax.management.Attribute;
import javax.management.AttributeChangeNotification;
import javax.management.AttributeList;
import javax.management.Descriptor;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanNotificationInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServerConnection;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.NotificationFilter;
import javax.management.NotificationFilterSupport;
import javax.management.ObjectInstance;
import javax.management.ObjectName;
import javax.management.Query;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.OpenMBeanParameterInfo;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;
import javax.management.openmbean.TabularData;
import javax.management.openmbean.TabularDataSupport;
import javax.management.openmbean.TabularType;
import javax.management.remote.JMXConnectionNotification;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXPrincipal;
import javax.management.remote.JMXServiceURL;
import javax.security.auth.Subject;

/** A JMX client whose answers are texts: class, a space, and the value. */
public final class Client {
    private final JMXConnector connector;
    private final MBeanServerConnection connection;
    private final BlockingQueue<String> notifications = new LinkedBlockingQueue<>();
    private final AtomicLong lost = new AtomicLong();
    private volatile CountDownLatch standing = new CountDownLatch(0);

    private Client(JMXConnector connector) throws Exception {
        this.connector = connector;
        this.connection = connector.getMBeanServerConnection();
        connector.addConnectionNotificationListener((notification, handback) -> {
            if (notification.getType().equals(JMXConnectionNotification.NOTIFS_LOST)) {
                lost.addAndGet((Long) notification.getUserData());
            }
        }, null, null);
    }

    public static Client connect(int port, String user, String password) throws Exception {
        return connectWith(port, new String[] {user, password});
    }

    public static Client connectWith(int port, Object credentials) throws Exception {
        Map<String, Object> environment = new HashMap<>();
        if (credentials != null) {
            environment.put(JMXConnector.CREDENTIALS, credentials);
        }
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
        return new Client(JMXConnectorFactory.connect(url, environment));
    }

    /** Tries something; the class and text of the exception that came, or of its first cause; else empty. */
    public static String failure(Callable attempt) {
        try {
            attempt.call();
            return "";
        } catch (Throwable error) {
            StringBuilder text = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                text.append(cause.getClass().getName()).append(": ").append(cause.getMessage()).append('\n');
            }
            return text.toString();
        }
    }

    /** An attempt that may throw anything. */
    public interface Callable {
        void call() throws Exception;
    }

    public String connectionId() throws Exception {
        return connector.getConnectionId();
    }

    /** What the registry at a port has, with the address that it leads to. */
    public static String registered(int port) throws Exception {
        return LocateRegistry.getRegistry("127.0.0.1", port).lookup("jmxrmi").toString();
    }

    /** Closes clients while they listen, so many one after the other; what Java's client logs of it. */
    public static List<String> closeWhileListening(int port, String user, String password, int count) throws Exception {
        List<String> logged = Collections.synchronizedList(new ArrayList<>());
        Handler handler = new StreamHandler() {
            @Override
            public void publish(LogRecord entry) {
                logged.add(entry.getMessage() + " " + entry.getThrown());
            }
        };
        Logger messages = Logger.getLogger("javax.management.remote");
        messages.addHandler(handler);
        try {
            for (int number = 0; number < count; number++) {
                Client client = connect(port, user, password);
                client.listen("JMImplementation:type=MBeanServerDelegate");
                client.connection.getMBeanCount();
                client.close();
            }
        } finally {
            messages.removeHandler(handler);
        }
        return logged;
    }

    public void close() throws Exception {
        connector.close();
    }

    public List<String> names(String pattern) throws Exception {
        List<String> names = new ArrayList<>();
        for (ObjectName name : new TreeSet<>(connection.queryNames(new ObjectName(pattern), null))) {
            names.add(name.getCanonicalName());
        }
        return names;
    }

    /** The names of objects of that class whose attribute is at least {@code minimum}: by a query on the server. */
    public List<String> namesWhere(String pattern, String className, String attribute, long minimum)
            throws Exception {
        List<String> names = new ArrayList<>();
        for (ObjectName name : new TreeSet<>(connection.queryNames(new ObjectName(pattern), Query.and(
                Query.geq(Query.attr(attribute), Query.value(minimum)),
                Query.eq(Query.classattr(), Query.value(className)))))) {
            names.add(name.getCanonicalName());
        }
        return names;
    }

    public String attribute(String name, String attribute) throws Exception {
        return describe(connection.getAttribute(new ObjectName(name), attribute));
    }

    public List<String> attributes(String name, List<String> attributes) throws Exception {
        return Reads.attributes(connection, name, attributes);
    }

    public List<String> differentReads(String name, List<String> attributes, int calls) throws Exception {
        return Reads.different(connection, name, attributes, calls);
    }

    /** One line for the class, one for each attribute, one for each kind of notification. */
    public List<String> info(String name) throws Exception {
        var info = connection.getMBeanInfo(new ObjectName(name));
        List<String> lines = new ArrayList<>();
        lines.add(info.getClassName() + ": " + info.getDescription() + " " + fields(info.getDescriptor()));
        for (MBeanAttributeInfo attribute : info.getAttributes()) {
            lines.add(attribute.getName() + " " + attribute.getType() + " (" + attribute.getDescription() + ") "
                + (attribute.isReadable() ? "r" : "") + (attribute.isWritable() ? "w" : "") + " "
                + limits((OpenMBeanAttributeInfo) attribute) + fields(attribute.getDescriptor()));
        }
        for (MBeanNotificationInfo kind : info.getNotifications()) {
            lines.add("! " + Arrays.toString(kind.getNotifTypes()) + " " + kind.getName() + " ("
                + kind.getDescription() + ")");
        }
        return lines;
    }

    private static String limits(OpenMBeanAttributeInfo attribute) {
        String text = "";
        if (attribute.hasMinValue()) {
            text += "min " + describe(attribute.getMinValue()) + " ";
        }
        if (attribute.hasMaxValue()) {
            text += "max " + describe(attribute.getMaxValue()) + " ";
        }
        if (attribute.hasLegalValues()) {
            text += "legal " + new TreeSet<>(attribute.getLegalValues()) + " ";
        }
        return text;
    }

    private static String fields(Descriptor descriptor) {
        Map<String, String> fields = new TreeMap<>();
        for (String field : descriptor.getFieldNames()) {
            if (!List.of("openType", "originalType", "minValue", "maxValue", "legalValues").contains(field)) {
                fields.put(field, String.valueOf(descriptor.getFieldValue(field)));
            }
        }
        return fields.toString();
    }

    public boolean isInstanceOf(String name, String className) throws Exception {
        return connection.isInstanceOf(new ObjectName(name), className);
    }

    public void listen(String name) throws Exception {
        connection.addNotificationListener(new ObjectName(name), this::received, null, null);
    }

    public void listenFor(String name, String type) throws Exception {
        NotificationFilterSupport filter = new NotificationFilterSupport();
        filter.enableType(type);
        connection.addNotificationListener(new ObjectName(name), this::received, filter, null);
    }

    /** Takes the next notification, and no further one until {@link #goOn}. */
    public void standStill() {
        standing = new CountDownLatch(1);
    }

    public void goOn() {
        standing.countDown();
    }

    private void received(Notification notification, Object handback) {
        try {
            standing.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        String text = notification.getType() + " of " + notification.getSource();
        if (notification instanceof AttributeChangeNotification) {
            AttributeChangeNotification change = (AttributeChangeNotification) notification;
            text += ": " + change.getAttributeName() + " (" + change.getAttributeType() + ") "
                + describe(change.getOldValue()) + " -> " + describe(change.getNewValue());
        } else if (notification instanceof MBeanServerNotification) {
            text += ": " + ((MBeanServerNotification) notification).getMBeanName();
        } else {
            text += ": " + notification.getMessage() + "; " + notification.getSequenceNumber() + " at "
                + notification.getTimeStamp() + "; " + describe(notification.getUserData());
        }
        notifications.add(text);
    }

    /** The next notification; empty when none came in time. */
    public String received(long milliseconds) throws Exception {
        String text = notifications.poll(milliseconds, TimeUnit.MILLISECONDS);
        return text == null ? "" : text;
    }

    public int receivedCount() {
        return notifications.size();
    }

    /** How many notifications the server says may have been lost. */
    public long lostCount() {
        return lost.get();
    }

    private ThreadMXBean threadMXBean() throws Exception {
        return ManagementFactory.newPlatformMXBeanProxy(
            connection, ManagementFactory.THREAD_MXBEAN_NAME, ThreadMXBean.class);
    }

    /** The names of threads, asked for as JConsole does, which are those of a dump of all. */
    public List<String> threads() throws Exception {
        ThreadMXBean threads = threadMXBean();
        TreeSet<String> names = new TreeSet<>();
        for (ThreadInfo info : threads.getThreadInfo(threads.getAllThreadIds(), Integer.MAX_VALUE)) {
            if (info != null) {
                names.add(info.getThreadName());
            }
        }
        for (ThreadInfo info : threads.dumpAllThreads(true, true)) {
            names.add(info.getThreadName());
        }
        return new ArrayList<>(names);
    }

    public int deadlocks() throws Exception {
        long[] found = threadMXBean().findDeadlockedThreads();
        return found == null ? 0 : found.length;
    }

    public String tryThreads(int count) {
        long[] identifiers = new long[count];
        Arrays.fill(identifiers, 1);
        return failure(() -> threadMXBean().getThreadInfo(identifiers, 1));
    }

    // What somebody tries who should not.

    public String trySetAttribute(String name, String attribute, Object value) {
        return failure(() -> connection.setAttribute(new ObjectName(name), new Attribute(attribute, value)));
    }

    public String trySetAttributes(String name, String attribute, Object value) {
        AttributeList list = new AttributeList(List.of(new Attribute(attribute, value)));
        return failure(() -> describeList(connection.setAttributes(new ObjectName(name), list)));
    }

    private static void describeList(AttributeList list) {
        if (!list.isEmpty()) {
            throw new IllegalStateException("set: " + list);
        }
    }

    public String tryInvoke(String name, String operation, String signature, Object argument) {
        Object[] arguments = signature.isEmpty() ? new Object[0] : new Object[] {argument};
        String[] signatures = signature.isEmpty() ? new String[0] : new String[] {signature};
        return failure(() -> connection.invoke(new ObjectName(name), operation, arguments, signatures));
    }

    public String tryDumpHeap(String file) {
        return failure(() -> connection.invoke(
            new ObjectName("com.sun.management:type=HotSpotDiagnostic"), "dumpHeap",
            new Object[] {file, true}, new String[] {"java.lang.String", "boolean"}));
    }

    public String tryCreate(String className, String name) {
        return failure(() -> connection.createMBean(className, new ObjectName(name)));
    }

    public String tryUnregister(String name) {
        return failure(() -> connection.unregisterMBean(new ObjectName(name)));
    }

    public String tryListenerMBean(String name, String listener) {
        return failure(() -> connection.addNotificationListener(
            new ObjectName(name), new ObjectName(listener), null, null));
    }

    public String tryFilterOfOurs(String name) {
        return failure(() -> connection.addNotificationListener(
            new ObjectName(name), this::received, new OwnFilter(), null));
    }

    /** Sets attributes at once: name, value, name, value ...; the names of those that the server says were set. */
    public List<String> setAll(String name, List<Object> namesAndValues) throws Exception {
        AttributeList list = new AttributeList();
        for (int index = 0; index < namesAndValues.size(); index += 2) {
            list.add(new Attribute((String) namesAndValues.get(index), namesAndValues.get(index + 1)));
        }
        List<String> set = new ArrayList<>();
        for (Attribute attribute : connection.setAttributes(new ObjectName(name), list).asList()) {
            set.add(attribute.getName());
        }
        return set;
    }

    /** Sets what can be read and written as it is read, as a backup does: a line for each attribute, and whether. */
    public List<String> writeBack(String pattern) throws Exception {
        List<String> lines = new ArrayList<>();
        for (ObjectName name : new TreeSet<>(connection.queryNames(new ObjectName(pattern), null))) {
            String[] attributes = Arrays.stream(connection.getMBeanInfo(name).getAttributes())
                .filter(attribute -> attribute.isReadable() && attribute.isWritable())
                .map(MBeanAttributeInfo::getName).toArray(String[]::new);
            if (attributes.length == 0) {
                continue;
            }
            AttributeList read = connection.getAttributes(name, attributes);
            List<Attribute> set = connection.setAttributes(name, read).asList();
            for (Attribute attribute : read.asList()) {
                boolean isSet = set.stream().anyMatch(one -> one.getName().equals(attribute.getName()));
                lines.add(name.getKeyProperty("type") + " " + attribute.getName() + (isSet ? " set" : " not set"));
            }
        }
        return lines;
    }

    /** Invokes an operation with the signature that its MBean describes, as consoles do; what it returns. */
    public String invoke(String name, String operation, List<Object> arguments) throws Exception {
        for (MBeanOperationInfo info : connection.getMBeanInfo(new ObjectName(name)).getOperations()) {
            if (info.getName().equals(operation)) {
                String[] signature = Arrays.stream(info.getSignature())
                    .map(MBeanParameterInfo::getType).toArray(String[]::new);
                return describe(connection.invoke(
                    new ObjectName(name), operation, arguments.toArray(), signature));
            }
        }
        // What a user may not do is not described to it.
        return describe(connection.invoke(new ObjectName(name), operation, arguments.toArray(), null));
    }

    public String tryInvokeWith(String name, String operation, List<Object> arguments) {
        return failure(() -> invoke(name, operation, arguments));
    }

    public String tryInvokeAs(String name, String operation, List<Object> arguments, List<String> signature) {
        return failure(() -> connection.invoke(new ObjectName(name), operation,
            arguments == null ? null : arguments.toArray(),
            signature == null ? null : signature.toArray(new String[0])));
    }

    /** Invokes an operation without parameters in so many threads at once; what each was told, empty for success. */
    public List<String> tryInvokeAtOnce(String name, String operation, int count) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            List<Future<String>> told = new ArrayList<>();
            for (int thread = 0; thread < count; thread++) {
                told.add(threads.submit(() -> tryInvoke(name, operation, "", null)));
            }
            List<String> texts = new ArrayList<>();
            for (Future<String> each : told) {
                texts.add(each.get());
            }
            return texts;
        } finally {
            threads.shutdown();
        }
    }

    /** A page of a table: a line for each row in the order of names, then what comes next, then the total. */
    public List<String> page(String table, Object attributes, String from, int limit) throws Exception {
        CompositeData page = page(new ObjectName(table), attributes, from, limit);
        List<String> lines = new ArrayList<>();
        for (CompositeData row : rows(page).values()) {
            Map<String, String> items = new TreeMap<>();
            for (String item : row.getCompositeType().keySet()) {
                items.put(item, describe(row.get(item)));
            }
            lines.add(items.remove("ObjectName").replace("java.lang.String ", "") + " " + items);
        }
        lines.add(String.valueOf(page.get("next")));
        lines.add(String.valueOf(page.get("total")));
        return lines;
    }

    public String tryPage(String table, Object attributes, String from, int limit) {
        return failure(() -> page(new ObjectName(table), attributes, from, limit));
    }

    private CompositeData page(ObjectName table, Object attributes, String from, int limit) throws Exception {
        String type = attributes instanceof String ? "java.lang.String" : "[Ljava.lang.String;";
        return (CompositeData) connection.invoke(table, "read", new Object[] {attributes, from, limit},
            new String[] {type, "java.lang.String", "int"});
    }

    private static TreeMap<String, CompositeData> rows(CompositeData page) {
        TreeMap<String, CompositeData> rows = new TreeMap<>();
        for (Object row : ((TabularData) page.get("rows")).values()) {
            rows.put((String) ((CompositeData) row).get("ObjectName"), (CompositeData) row);
        }
        return rows;
    }

    /**
     * Reads a table page by page, and the same by {@code getAttribute}.
     *
     * @return calls for the table, rows, values that differ, nanoseconds of the table, nanoseconds of the others
     */
    public List<Long> compare(String table, Object names, int limit) throws Exception {
        String[] attributes = (String[]) names;
        TreeMap<String, CompositeData> rows = new TreeMap<>();
        long calls = 0;
        long start = System.nanoTime();
        for (String next = ""; next != null; calls++) {
            CompositeData page = page(new ObjectName(table), attributes, next, limit);
            rows.putAll(rows(page));
            next = (String) page.get("next");
        }
        long middle = System.nanoTime();
        long different = 0;
        for (Map.Entry<String, CompositeData> row : rows.entrySet()) {
            ObjectName name = new ObjectName(row.getKey());
            for (String attribute : attributes) {
                Object value = connection.getAttribute(name, attribute);
                different += describe(value).equals(describe(row.getValue().get(attribute))) ? 0 : 1;
            }
        }
        return List.of(calls, (long) rows.size(), different, middle - start, System.nanoTime() - middle);
    }

    /** What a client is told of an MBean in each way to ask for it: a line for each. */
    public List<String> tryEverything(String text, String attribute) throws Exception {
        ObjectName name = new ObjectName(text);
        return List.of(
            failure(() -> connection.getAttribute(name, attribute)),
            failure(() -> connection.getAttributes(name, new String[] {attribute})),
            failure(() -> connection.getMBeanInfo(name)),
            failure(() -> connection.getObjectInstance(name)),
            failure(() -> connection.isInstanceOf(name, "java.lang.Object")),
            failure(() -> connection.addNotificationListener(name, this::received, null, null)),
            failure(() -> connection.removeNotificationListener(name, name)),
            failure(() -> connection.removeNotificationListener(name, name, null, null)),
            failure(() -> connection.setAttribute(name, new Attribute(attribute, 1L))),
            failure(() -> connection.setAttributes(name, new AttributeList())),
            failure(() -> connection.invoke(name, "purge", null, null)),
            failure(() -> connection.invoke(name, "read", new Object[] {null, null, 0}, null)),
            String.valueOf(connection.isRegistered(name)),
            String.valueOf(connection.queryNames(name, null)),
            String.valueOf(connection.queryMBeans(name, null)));
    }

    /** The names of MBeans in the server, by another way than {@link #names}. */
    public List<String> instances() throws Exception {
        List<String> names = new ArrayList<>();
        for (ObjectInstance instance : connection.queryMBeans(null, null)) {
            names.add(instance.getObjectName().getCanonicalName());
        }
        names.sort(null);
        return names;
    }

    public int count() throws Exception {
        return connection.getMBeanCount();
    }

    /** The names of MBeans of ours whose attribute has not that value, by a query. */
    public List<String> namesUnlike(String attribute, String value) throws Exception {
        List<String> names = new ArrayList<>();
        for (ObjectName name : new TreeSet<>(connection.queryNames(new ObjectName("amqp.gateway:*"),
                Query.not(Query.eq(Query.attr(attribute), Query.value(value)))))) {
            names.add(name.getCanonicalName());
        }
        return names;
    }

    /** One line for each operation: what it takes, what it returns, whether it acts. */
    public List<String> operations(String name) throws Exception {
        List<String> lines = new ArrayList<>();
        for (MBeanOperationInfo operation : connection.getMBeanInfo(new ObjectName(name)).getOperations()) {
            List<String> parameters = new ArrayList<>();
            for (MBeanParameterInfo parameter : operation.getSignature()) {
                OpenMBeanParameterInfo open = (OpenMBeanParameterInfo) parameter;
                String limits = open.hasMinValue() || open.hasMaxValue()
                    ? " " + describe(open.getMinValue()) + " to " + describe(open.getMaxValue()) : "";
                limits += open.hasLegalValues() ? " of " + new TreeSet<>(open.getLegalValues()) : "";
                limits += open.hasDefaultValue() ? " default " + describe(open.getDefaultValue()) : "";
                parameters.add(parameter.getName() + " " + parameter.getType() + " ("
                    + parameter.getDescription() + ")" + limits);
            }
            lines.add(operation.getName() + " (" + operation.getDescription() + ") " + parameters + " "
                + operation.getReturnType() + (operation.getImpact() == MBeanOperationInfo.INFO ? " reads" : ""));
        }
        return lines;
    }

    /** Asks as if somebody else had logged in. */
    public String tryAs(String other, String name, String attribute, Object value) {
        Subject subject = new Subject(
            true, java.util.Set.of(new JMXPrincipal(other)), java.util.Set.of(), java.util.Set.of());
        return failure(() -> asOther(subject).setAttribute(
            new ObjectName(name), new Attribute(attribute, value)));
    }

    @SuppressWarnings({"deprecation", "removal"})
    private MBeanServerConnection asOther(Subject subject) throws Exception {
        return connector.getMBeanServerConnection(subject);
    }

    public static Object date(long milliseconds) {
        return new Date(milliseconds);
    }

    public static Object bytes(String hexadecimal) {
        return new BigInteger(hexadecimal, 16).toByteArray();
    }

    public static Object bigInteger(String digits) {
        return new BigInteger(digits);
    }

    public static Object bigDecimal(String digits) {
        return new BigDecimal(digits);
    }

    /** Sets a value that Python has no word for, such as a short, or a text that is no Unicode. */
    public String trySetOdd(String name, String attribute, String kind) {
        Object value = Map.of("Short", (short) -5, "Float", 0.5f, "half a character", "a" + (char) 0xd800,
            "Character", 'a', "List.of", List.of("a"), "Map.of", Map.of("a", "1"), "long[]", new long[] {5},
            "Instant", Instant.EPOCH, "TimeUnit", TimeUnit.DAYS).get(kind);
        return trySetAttribute(name, attribute, value);
    }

    public static Object objectName(String name) throws Exception {
        return new ObjectName(name);
    }

    public static Object longText(int length) {
        return "x".repeat(length);
    }

    /** A table of two columns of texts: what our MBeans show of maps, or one that they do not. */
    public static Object table(String keyColumn, String valueColumn, Map<String, String> entries)
            throws Exception {
        String[] columns = {keyColumn, valueColumn};
        OpenType<?>[] types = {SimpleType.STRING, SimpleType.STRING};
        CompositeType row = new CompositeType("entry", "d", columns, columns, types);
        TabularDataSupport table =
            new TabularDataSupport(new TabularType("map", "d", row, new String[] {keyColumn}));
        for (Map.Entry<String, String> entry : entries.entrySet()) {
            table.put(new CompositeDataSupport(row, columns, new Object[] {entry.getKey(), entry.getValue()}));
        }
        return table;
    }

    public static Object strings(List<String> texts) {
        return texts.toArray(new String[0]);
    }

    public static Object file(String path) {
        return new File(path);
    }

    public static Object longTexts(int count, int length) {
        String[] texts = new String[count];
        Arrays.fill(texts, "x".repeat(length));
        return texts;
    }

    public static Object nested(int depth) {
        Object value = "x";
        for (int level = 0; level < depth; level++) {
            value = new Object[] {value};
        }
        return value;
    }

    /** The process of this virtual machine. */
    public static long pid() {
        return ProcessHandle.current().pid();
    }

    /** What attacks, and not as a client does. */
    public static Attacks attacks() {
        return new Attacks();
    }

    public static String tryConnectWith(int port, Object credentials) {
        return failure(() -> connectWith(port, credentials).close());
    }

    public static String tryUnbind(int port) {
        return failure(() -> registry(port).unbind("jmxrmi"));
    }

    public static String tryBind(int port) throws Exception {
        Remote ours = UnicastRemoteObject.exportObject(new Impostor() { }, 0);
        return failure(() -> registry(port).bind("another", ours));
    }

    public static String tryRebind(int port) throws Exception {
        Remote ours = UnicastRemoteObject.exportObject(new Impostor() { }, 0);
        return failure(() -> registry(port).rebind("jmxrmi", ours));
    }

    private static Registry registry(int port) throws RemoteException {
        return LocateRegistry.getRegistry("127.0.0.1", port);
    }

    /** Somebody who would like to be the connector. */
    public interface Impostor extends Remote {
    }

    /** An object of a class that the gateway does not have. */
    public static Object ours() {
        return new OwnFilter();
    }

    /** A class that the gateway does not have. */
    public static final class OwnFilter implements NotificationFilter, Serializable {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean isNotificationEnabled(Notification notification) {
            return true;
        }
    }

    /** Reads an attribute again and again; nanoseconds each. */
    public long timeOfRead(String name, String attribute, int count) throws Exception {
        ObjectName objectName = new ObjectName(name);
        long start = System.nanoTime();
        for (int read = 0; read < count; read++) {
            connection.getAttribute(objectName, attribute);
        }
        return (System.nanoTime() - start) / count;
    }

    static String describe(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof byte[]) {
            return "byte[] " + Arrays.toString((byte[]) value);
        }
        if (value instanceof String[]) {
            return "String[] " + Arrays.toString((String[]) value);
        }
        if (value instanceof Date) {
            return "java.util.Date " + ((Date) value).getTime();
        }
        if (value instanceof TabularData) {
            Map<String, String> rows = new TreeMap<>();
            for (Object row : ((TabularData) value).values()) {
                rows.put((String) ((CompositeData) row).get("key"), (String) ((CompositeData) row).get("value"));
            }
            return "TabularData " + rows;
        }
        if (value instanceof CompositeData) {
            CompositeData data = (CompositeData) value;
            Map<String, String> items = new TreeMap<>();
            for (String item : data.getCompositeType().keySet()) {
                items.put(item, describe(data.get(item)));
            }
            return "CompositeData " + data.getCompositeType().getTypeName() + " " + items;
        }
        return value instanceof MBeanInfo ? Reads.describe((MBeanInfo) value) : value.getClass().getName() + " " + value;
    }
}
