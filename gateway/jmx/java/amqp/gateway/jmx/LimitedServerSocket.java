package amqp.gateway.jmx;

import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;

/**
 * Accepts connections on which one request has a largest size.
 *
 * <p>RMI reads a whole request before it answers, and a filter of classes does not look at texts: without this
 * a stranger could fill the heap with one long user name. So what arrives between two answers is counted, and
 * a connection that sends too much is closed.
 */
final class LimitedServerSocket extends ServerSocket {
    /** 1 MiB: names of some thousand MBeans, to listen to all at once. */
    static final int MAX_REQUEST_OCTETS = 1 << 20;

    LimitedServerSocket() throws IOException {
        super();
    }

    @Override
    public Socket accept() throws IOException {
        Socket socket = new LimitedSocket();
        implAccept(socket);
        return socket;
    }

    private static final class LimitedSocket extends Socket {
        private volatile long sinceAnswer;

        @Override
        public InputStream getInputStream() throws IOException {
            return new FilterInputStream(super.getInputStream()) {
                @Override
                public int read() throws IOException {
                    return counted(super.read(), 1);
                }

                @Override
                public int read(byte[] octets, int offset, int length) throws IOException {
                    int count = super.read(octets, offset, length);
                    return counted(count, count);
                }
            };
        }

        @Override
        public OutputStream getOutputStream() throws IOException {
            return new FilterOutputStream(super.getOutputStream()) {
                @Override
                public void write(int octet) throws IOException {
                    sinceAnswer = 0;
                    out.write(octet);
                }

                @Override
                public void write(byte[] octets, int offset, int length) throws IOException {
                    sinceAnswer = 0;
                    out.write(octets, offset, length);
                }
            };
        }

        private int counted(int result, int count) throws IOException {
            long total = sinceAnswer + Math.max(count, 0);
            sinceAnswer = total;
            if (total > MAX_REQUEST_OCTETS) {
                close();
                throw new IOException("a request of more than " + MAX_REQUEST_OCTETS + " octets");
            }
            return result;
        }
    }
}
