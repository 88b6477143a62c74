package amqp.gateway.jmx;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;

/** What Python sends on standard input before anything else: a length of 32 bits, and a MessagePack array. */
final class Settings {
    private static final int MAX_OCTETS = 1 << 20;

    /** Where Python takes calls, on the loopback. */
    final int backendPort;
    /** What we prove with that we are who calls. */
    final String backendToken;
    /** What Python proves with that it is who calls. */
    final String bridgeToken;
    /** The address to listen on for JMX, numeric. */
    final String address;
    /** Of registry and objects; 0 for any. */
    final int port;
    /** The host that clients connect to. */
    final String hostname;
    /** The port that clients connect to; 0 where it is ours. */
    final int advertisedPort;
    /** How long to wait for a port that is taken, because a predecessor may be dying. */
    final int listenMilliseconds;
    /** How long Python may take to answer. */
    final int backendMilliseconds;
    /** How long Python may say nothing before it is taken to stand still. */
    final int silenceMilliseconds;
    final int notificationBuffer;
    /** Of all our object names. */
    final String domain;
    /** Null for plain text. */
    final TlsSettings tls;

    private Settings(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(13, "the settings");
        backendPort = reader.readInt(1, 65_535);
        backendToken = reader.readString();
        bridgeToken = reader.readString();
        address = reader.readString();
        port = reader.readInt(0, 65_535);
        hostname = reader.readString();
        advertisedPort = reader.readInt(0, 65_535);
        listenMilliseconds = reader.readInt(0, Integer.MAX_VALUE);
        backendMilliseconds = reader.readInt(1, Integer.MAX_VALUE);
        silenceMilliseconds = reader.readInt(1, Integer.MAX_VALUE);
        notificationBuffer = reader.readInt(1, Integer.MAX_VALUE);
        domain = reader.readString();
        tls = TlsSettings.read(reader);
    }

    static Settings read(InputStream input) throws IOException {
        DataInputStream stream = new DataInputStream(input);
        int length = stream.readInt();
        if (length < 0 || length > MAX_OCTETS) {
            throw new IOException("settings of " + length + " octets");
        }
        byte[] octets = new byte[length];
        stream.readFully(octets);
        try {
            return new Settings(new MessageReader(octets));
        } catch (MalformedException | CommandException error) {
            throw new IOException("settings: " + error.getMessage(), error);
        }
    }
}
