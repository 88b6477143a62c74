package amqp.gateway.jmx;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;

/** Accepts the connections of clients, as far as there is a place for them ({@link Connections}). */
final class ClientServerSocket extends ServerSocket {
    private final Connections connections;
    private final Denials denials;
    private volatile Tls tls;

    /** @param tls of connections; null for plain text */
    ClientServerSocket(Connections connections, Tls tls, Denials denials) throws IOException {
        super();
        this.connections = connections;
        this.denials = denials;
        this.tls = tls;
    }

    /** Secures connections that are accepted from now on by this. */
    void renew(Tls renewed) {
        if (tls == null) {
            throw new IllegalStateException("there is no TLS");
        }
        tls = renewed;
    }

    @Override
    public Socket accept() throws IOException {
        ClientSocket socket = new ClientSocket(connections, denials);
        implAccept(socket);
        Tls current = tls;
        if (current != null) {
            socket.secure(current);
        }
        connections.add(socket);
        return socket;
    }
}
