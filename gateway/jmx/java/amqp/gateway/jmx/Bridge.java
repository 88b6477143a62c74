package amqp.gateway.jmx;

import java.io.IOException;
import java.net.ServerSocket;

/** What Python calls, over one connection. */
public final class Bridge {
    private final ManagedObjects objects;
    private final EventTypes eventTypes = new EventTypes();
    private final Connector connector;
    private final Operations operations;
    private final ServerSocket door;
    private final SignsOfLife life;

    /** Python comes in by {@code door}, which is shut behind it; each of its calls is a sign of life. */
    Bridge(
            ManagedObjects objects,
            Connector connector,
            Operations operations,
            ServerSocket door,
            SignsOfLife life) {
        this.objects = objects;
        this.connector = connector;
        this.operations = operations;
        this.door = door;
        this.life = life;
    }

    /** Python is here: from now on nobody else can come. */
    public void connected() throws IOException {
        door.close();
    }

    /** Carries out a batch; the MessagePack array of how many errors there were, and the texts of the first. */
    public synchronized byte[] push(byte[] batch) {
        MessageWriter answer = new MessageWriter();
        new Batch(batch, objects, eventTypes).carryOut().write(answer);
        life.heard();
        return answer.toBytes();
    }

    /** See {@link Usage}. */
    public byte[] usage() {
        return Usage.toBytes(connector.sessions(), operations.underWay());
    }

    /** Lets JMX clients in. */
    public void open() throws IOException {
        connector.open();
    }
}
