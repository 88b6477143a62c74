package amqp.gateway.jmx;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;

/**
 * A client's connection as TLS sees it: the octets that travel.
 *
 * <p>{@link ClientSocket} lies above TLS, because it counts what a request has, and a request ends with the first
 * octet of its answer: TLS writes by itself too, when a client asks it to (RFC 8446 section 4.6.3).
 */
final class RawConnection extends Socket {
    private final ClientSocket socket;

    RawConnection(ClientSocket socket) {
        this.socket = socket;
    }

    @Override
    public InputStream getInputStream() throws IOException {
        return socket.rawInput();
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
        return socket.rawOutput();
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    @Override
    public boolean isConnected() {
        return socket.isConnected();
    }

    @Override
    public boolean isBound() {
        return socket.isBound();
    }

    @Override
    public boolean isClosed() {
        return socket.isClosed();
    }

    @Override
    public boolean isInputShutdown() {
        return socket.isInputShutdown();
    }

    @Override
    public boolean isOutputShutdown() {
        return socket.isOutputShutdown();
    }

    @Override
    public void shutdownInput() throws IOException {
        socket.shutdownInput();
    }

    @Override
    public void shutdownOutput() throws IOException {
        socket.shutdownOutput();
    }

    @Override
    public InetAddress getInetAddress() {
        return socket.getInetAddress();
    }

    @Override
    public InetAddress getLocalAddress() {
        return socket.getLocalAddress();
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
        return socket.getRemoteSocketAddress();
    }

    @Override
    public SocketAddress getLocalSocketAddress() {
        return socket.getLocalSocketAddress();
    }

    @Override
    public int getPort() {
        return socket.getPort();
    }

    @Override
    public int getLocalPort() {
        return socket.getLocalPort();
    }

    @Override
    public int getSoTimeout() throws SocketException {
        return socket.getSoTimeout();
    }

    @Override
    public void setSoTimeout(int milliseconds) throws SocketException {
        socket.setSoTimeout(milliseconds);
    }

    @Override
    public void setSoLinger(boolean isOn, int seconds) throws SocketException {
        socket.setSoLinger(isOn, seconds);
    }

    @Override
    public void setTcpNoDelay(boolean isOn) throws SocketException {
        socket.setTcpNoDelay(isOn);
    }
}
