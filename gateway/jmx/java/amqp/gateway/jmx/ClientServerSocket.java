package amqp.gateway.jmx;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;

/** Accepts the connections of clients, as far as there is a place for them ({@link Connections}). */
final class ClientServerSocket extends ServerSocket {
    private final Connections connections;

    ClientServerSocket(Connections connections) throws IOException {
        super();
        this.connections = connections;
    }

    @Override
    public Socket accept() throws IOException {
        ClientSocket socket = new ClientSocket(connections);
        implAccept(socket);
        connections.add(socket);
        return socket;
    }
}
