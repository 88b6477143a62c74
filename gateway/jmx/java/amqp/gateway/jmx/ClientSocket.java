package amqp.gateway.jmx;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLPeerUnverifiedException;
import javax.net.ssl.SSLSocket;

/**
 * A connection of a client, and the request that is under way on it.
 *
 * <p>RMI reads a whole request before it answers, and a filter of classes does not look at texts: without a bound
 * one long user name would fill the heap. So what arrives between two answers is counted. A connection is a
 * stranger's until a request has named the object of a session ({@link RequestFilter}), which cannot be guessed.
 * RMI serves a connection in one thread, so that the thread's last read tells whose request it carries out.
 * With TLS, what is counted is what it protects ({@link RawConnection}). A handshake belongs to the stranger's first
 * request, and to its time.
 */
final class ClientSocket extends Socket {
    /** Of a session: the names of some thousand MBeans, to listen to all at once. */
    static final int MAX_REQUEST_OCTETS = 1 << 20;
    /** Of a stranger: a login with the longest user name and password has half as many. */
    static final int MAX_STRANGERS_OCTETS = 1 << 14;
    /** What all arrays of a request may take in the heap: a sender names a length, and need not send so much. */
    static final int MAX_ARRAY_OCTETS = 4 << 20;
    /** A request with more than so much, or with larger arrays, waits for one of a few places. */
    static final int SMALL_OCTETS = 1 << 14;

    private static final ThreadLocal<ClientSocket> CURRENT = new ThreadLocal<>();
    private static final int PROTOCOL_ACK = 0x4e;
    /** What Java says of a client that ended a handshake. */
    private static final String ALERT = "Received fatal alert";
    private static final int MAX_TEXT = 200;

    private final Connections connections;
    private final Denials denials;
    private final Deque<Semaphore> places = new ArrayDeque<>();
    private final long accepted = System.nanoTime();
    /** TLS on this connection; null for plain text. */
    private SSLSocket secured;
    // Written by the thread that serves the connection, and read by those that look for silent ones.
    private volatile Session session;
    private volatile long octets;
    private volatile boolean isAnswered;
    private volatile boolean isReading;
    private volatile boolean isWriting;
    private volatile boolean isDelayed;
    private volatile long since = System.nanoTime();
    // Of the thread that serves the connection.
    private SerialFilters.Part part = SerialFilters.Part.REQUEST;
    private long arrayOctets;
    private boolean isLarge;
    private boolean hasGreeted;

    ClientSocket(Connections connections, Denials denials) {
        this.connections = connections;
        this.denials = denials;
    }

    /** Begins TLS; nothing is sent yet. */
    void secure(Tls tls) throws IOException {
        secured = tls.over(this);
    }

    /** What arrives, below TLS. */
    InputStream rawInput() throws IOException {
        return super.getInputStream();
    }

    /** What is sent, below TLS. */
    OutputStream rawOutput() throws IOException {
        return super.getOutputStream();
    }

    /** The connection whose request this thread carries out. */
    static ClientSocket current() {
        ClientSocket socket = CURRENT.get();
        if (socket == null) {
            throw new SecurityException("no client's request");
        }
        return socket;
    }

    /** The connection whose request this thread carries out; null in a thread that serves no client. */
    static ClientSocket currentOrNull() {
        return CURRENT.get();
    }

    /** Where the client is; empty where there is none. */
    static String currentHost() {
        ClientSocket socket = CURRENT.get();
        return socket == null ? "" : socket.host();
    }

    /** The certificate whose key the client has proved to hold, as TLS has verified; null without one, or at its end. */
    X509Certificate certificate() {
        if (secured == null) {
            return null;
        }
        try {
            // Of this connection, also where it resumed a session of TLS.
            X509Certificate proved = (X509Certificate) secured.getSession().getPeerCertificates()[0];
            proved.checkValidity();
            return proved;
        } catch (SSLPeerUnverifiedException | CertificateException error) {
            return null;
        }
    }

    /** The subject of the {@link #certificate}, in DER; null without one. */
    byte[] subject() {
        X509Certificate proved = certificate();
        return proved == null ? null : proved.getSubjectX500Principal().getEncoded();
    }

    /**
     * Nowhere: Java's registry lets every process of this machine bind and unbind names, and refuses both to a
     * client whose origin is unknown. {@link #host} has the address.
     */
    @Override
    public InetAddress getInetAddress() {
        return null;
    }

    /** The client's address. */
    String host() {
        InetAddress address = super.getInetAddress();
        return address == null ? "" : address.getHostAddress();
    }

    /** Whose connection it is; null of a stranger's. */
    Session session() {
        return session;
    }

    /** A request on it has named the object of a session. */
    void belongsTo(Session owner) throws IOException {
        if (session != owner) {
            connections.claim(this, owner);
            session = owner;
        }
    }

    /** What is deserialised next. */
    SerialFilters.Part part() {
        return part;
    }

    /** From now on, that part of the request is deserialised. */
    void begin(SerialFilters.Part next) {
        part = next;
    }

    /** Counts an array, before it is made; whether there may be one of that size. */
    boolean admitsArray(Class<?> type, long length) throws IOException {
        arrayOctets += length * width(type.getComponentType());
        if (arrayOctets > SMALL_OCTETS) {
            waitForLargePlace();
        }
        return arrayOctets <= MAX_ARRAY_OCTETS;
    }

    private static int width(Class<?> type) {
        if (type == byte.class || type == boolean.class) {
            return 1;
        }
        if (type == short.class || type == char.class) {
            return 2;
        }
        return type == long.class || type == double.class ? 8 : 4;
    }

    /**
     * Takes a place, until the answer has been sent.
     *
     * @throws IOException there is none in time
     */
    void take(Semaphore kind, String what) throws IOException {
        boolean taken;
        try {
            taken = kind.tryAcquire(Session.PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            taken = false;
        }
        if (!taken) {
            throw new IOException("too many " + what + " at a time; try again");
        }
        synchronized (places) {
            places.add(kind);
        }
        if (isClosed()) {
            release();
        }
    }

    private void waitForLargePlace() throws IOException {
        Session owner = session;
        if (owner != null && !isLarge) {
            isLarge = true;
            owner.takeLargePlace(this);
        }
    }

    private void release() {
        synchronized (places) {
            while (!places.isEmpty()) {
                places.remove().release();
            }
        }
    }

    /** Keeps the answer back, for so long or until the connection is closed. */
    void delay(long milliseconds) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
        isDelayed = true;
        synchronized (places) {
            try {
                for (long left = milliseconds; left > 0 && !isClosed();) {
                    places.wait(left);
                    left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
        isDelayed = false;
    }

    @Override
    public void close() throws IOException {
        super.close();
        connections.remove(this);
        release();
        synchronized (places) {
            places.notifyAll();
        }
    }

    /** Whether it may be closed without an answer being lost: it waits for the client, or is a refused login. */
    boolean isIdle() {
        return isReading || isDelayed;
    }

    /** Whether it has been heard of, and what it sent was no login that failed. */
    boolean isPromising() {
        return octets > 0 && !isDelayed || System.nanoTime() - accepted < Connections.FRESH_NANOSECONDS;
    }

    /** Nanoseconds since the client last did something that was waited for; 0 while it waits for us. */
    long silence(long now) {
        return isReading || isWriting ? now - since : 0;
    }

    /** Whether a request, or an answer, is under way and does not proceed. */
    boolean isUnfinished() {
        return isWriting || isReading && octets > 0 && !isAnswered;
    }

    @Override
    public InputStream getInputStream() throws IOException {
        return new FilterInputStream(secured == null ? rawInput() : secured.getInputStream()) {
            @Override
            public int read() throws IOException {
                byte[] octet = new byte[1];
                return read(octet, 0, 1) < 0 ? -1 : octet[0] & 0xff;
            }

            @Override
            public int read(byte[] buffer, int offset, int length) throws IOException {
                beginReading();
                int count;
                try {
                    count = super.read(buffer, offset, length);
                } catch (SSLException error) {
                    reportTlsFailure(error);
                    throw error;
                } finally {
                    isReading = false;
                }
                counted(count);
                return count;
            }
        };
    }

    /**
     * Before anything has arrived, a client that does not get through TLS; later, one that only went away.
     *
     * <p>A client that distrusts the gateway, or goes away, made no attempt to get in.
     */
    private void reportTlsFailure(SSLException error) {
        if (octets != 0 || isAnswered) {
            return;
        }
        String reason = String.valueOf(error.getMessage());
        if (error.getCause() instanceof EOFException || reason.startsWith(ALERT)) {
            System.err.println("TLS with " + host() + " failed: " + reason);
            return;
        }
        denials.report(Denials.Kind.LOGIN, "", host(),
            "TLS failed: " + (reason.length() <= MAX_TEXT ? reason : reason.substring(0, MAX_TEXT)));
        delay(Authenticator.FAILURE_MILLISECONDS);
    }

    private void beginReading() {
        CURRENT.set(this);
        if (isAnswered) {
            release();
            octets = 0;
            arrayOctets = 0;
            isLarge = false;
            part = SerialFilters.Part.REQUEST;
            isAnswered = false;
        }
        // A request that arrives by single octets has begun with its first.
        if (octets == 0) {
            since = System.nanoTime();
        }
        isReading = true;
    }

    private void counted(int count) throws IOException {
        if (octets == 0) {
            since = System.nanoTime();
        }
        long total = octets + Math.max(count, 0);
        octets = total;
        if (total > (session == null ? MAX_STRANGERS_OCTETS : MAX_REQUEST_OCTETS)) {
            close();
            throw new IOException("a request of more than "
                + (session == null ? MAX_STRANGERS_OCTETS + " octets before a login" : MAX_REQUEST_OCTETS + " octets"));
        }
        if (total > SMALL_OCTETS) {
            waitForLargePlace();
        }
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
        return new FilterOutputStream(secured == null ? rawOutput() : secured.getOutputStream()) {
            @Override
            public void write(int octet) throws IOException {
                write(new byte[] {(byte) octet}, 0, 1);
            }

            @Override
            public void write(byte[] buffer, int offset, int length) throws IOException {
                isAnswered = true;
                since = System.nanoTime();
                isWriting = true;
                try {
                    if (!hasGreeted && length > 0 && buffer[offset] == PROTOCOL_ACK) {
                        byte[] greeting = greeting();
                        out.write(greeting, 0, greeting.length);
                    } else {
                        out.write(buffer, offset, length);
                    }
                    hasGreeted = true;
                } finally {
                    isWriting = false;
                }
            }
        };
    }

    /** RMI's first answer, which tells the client its own address: RMI does not know it. */
    private byte[] greeting() throws IOException {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        DataOutputStream stream = new DataOutputStream(octets);
        stream.writeByte(PROTOCOL_ACK);
        stream.writeUTF(host());
        stream.writeInt(getPort());
        return octets.toByteArray();
    }
}
