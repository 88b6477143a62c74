package amqp.gateway.jmx;

import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.concurrent.ExecutionException;

/** What Python calls, over one connection. */
public final class Bridge {
    private final ManagedObjects objects;
    private final Batches batches;
    private final EventTypes eventTypes = new EventTypes();
    private final Connector connector;
    private final Operations operations;
    private final ServerSocket door;
    private final SignsOfLife life;

    /** Python comes in by {@code door}, which is shut behind it; each of its batches is a sign of life. */
    Bridge(
            ManagedObjects objects,
            Batches batches,
            Connector connector,
            Operations operations,
            ServerSocket door,
            SignsOfLife life) {
        this.objects = objects;
        this.batches = batches;
        this.connector = connector;
        this.operations = operations;
        this.door = door;
        this.life = life;
    }

    /** Python is connected: from now on no other process can connect. */
    public void connected() throws IOException {
        // The connection that was accepted lives on without the socket that listened.
        door.close();
    }

    /**
     * The answer to the next of the {@link Batches}: the MessagePack array of how many errors there were, and the texts
     * of the first.
     */
    public byte[] push() throws InterruptedException, ExecutionException {
        return batches.answer();
    }

    /** Carries out a batch, and returns the answer to it. */
    byte[] carryOut(byte[] batch) {
        MessageWriter answer = new MessageWriter();
        synchronized (objects.lock) {
            new Batch(batch, objects, eventTypes).carryOut().write(answer);
        }
        // Behind the batch: after a silence it may be this one that marks everything stale.
        life.received();
        return answer.toBytes();
    }

    /**
     * What the virtual machine uses, as the MessagePack array {@code [clients, their bound, operations, their bound,
     * heap, its bound, GC ms, GC count, threads]}.
     */
    public byte[] usage() {
        MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
        long milliseconds = 0;
        long collections = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            // A collector that does not count returns -1.
            milliseconds += Math.max(0, collector.getCollectionTime());
            collections += Math.max(0, collector.getCollectionCount());
        }
        return new MessageWriter().array(9)
            .integer(connector.sessions()).integer(Sessions.MAX)
            .integer(operations.underWay()).integer(Operations.MAX_AT_A_TIME)
            .integer(heap.getUsed()).integer(heap.getMax())
            .integer(milliseconds).integer(collections)
            .integer(ManagementFactory.getThreadMXBean().getThreadCount()).toBytes();
    }

    /**
     * Uses another key and other certificates of TLS for new connections.
     *
     * @param settings a MessagePack array, as in {@link Settings}
     * @return UTF-8: why this Java cannot use them, so that the former ones are used; empty where it can
     */
    public byte[] renewTls(byte[] settings) throws IOException {
        try {
            connector.renew(TlsSettings.read(new MessageReader(settings)));
            return new byte[0];
        } catch (GeneralSecurityException error) {
            return String.valueOf(error.getMessage()).getBytes(StandardCharsets.UTF_8);
        } catch (MalformedException | CommandException error) {
            throw new IOException("settings of TLS: " + error.getMessage(), error);
        }
    }

    /** Lets JMX clients in. */
    public void open() throws IOException {
        connector.open();
    }
}
