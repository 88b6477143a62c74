package amqp.gateway.jmx;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;

/** Accepts the connections of clients, as far as there is a place for them ({@link Connections}). */
final class ClientServerSocket extends ServerSocket {
    private final Connections connections;
    private final Tls tls;

    /** @param tls of all connections; null for plain text */
    ClientServerSocket(Connections connections, Tls tls) throws IOException {
        super();
        this.connections = connections;
        this.tls = tls;
    }

    @Override
    public Socket accept() throws IOException {
        ClientSocket socket = new ClientSocket(connections);
        implAccept(socket);
        if (tls != null) {
            socket.secure(tls);
        }
        connections.add(socket);
        return socket;
    }
}
