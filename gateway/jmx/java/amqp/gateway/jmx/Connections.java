package amqp.gateway.jmx;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * The open connections: how many there may be, and for how long one may be silent.
 *
 * <p>Java's client asks whether an idle connection still lives before it uses it again, so that an idle one can be
 * closed at any time. Where there is no place for a new connection, an idle one is closed for it: of strangers one that
 * never sent anything comes first, of those who have most, the oldest.
 */
final class Connections {
    /** Of sessions; a thread serves each. */
    static final int MAX_OF_SESSIONS = 256;
    /** Of one user, so that others find a place beside those who take all they can. */
    static final int MAX_OF_A_USER = 160;
    /** Of strangers. */
    static final int MAX_OF_STRANGERS = 128;
    /** For so long a new connection is as good as one that has sent something. */
    static final long FRESH_NANOSECONDS = TimeUnit.MILLISECONDS.toNanos(500);

    private static final long CHECK_MILLISECONDS = 500;
    /** A client that has just started on a busy machine needs seconds between two steps of a handshake. */
    private static final long STRANGERS_NANOSECONDS = TimeUnit.SECONDS.toNanos(10);
    /** A session's client closes a connection that it has not used for 15 s. */
    private static final long IDLE_NANOSECONDS = TimeUnit.SECONDS.toNanos(30);
    private static final long UNFINISHED_NANOSECONDS = TimeUnit.SECONDS.toNanos(20);

    /** In the order in which they came. */
    private final Set<ClientSocket> open = new LinkedHashSet<>();

    /** Begins to look for silent ones. */
    void watch() {
        Thread thread = new Thread(this::closeSilentOnes, "connection-watch");
        thread.setDaemon(true);
        thread.start();
    }

    /** A stranger has connected; the connection is closed if it finds no place. */
    void add(ClientSocket socket) throws IOException {
        ClientSocket leaving = null;
        synchronized (open) {
            if (count(null) >= MAX_OF_STRANGERS) {
                leaving = leastStranger();
                if (leaving == null) {
                    leaving = socket;
                }
            }
            open.add(socket);
        }
        if (leaving != null) {
            leaving.close();
        }
    }

    void remove(ClientSocket socket) {
        synchronized (open) {
            open.remove(socket);
        }
    }

    /**
     * A connection is found to be of a session.
     *
     * @throws IOException all places are taken, and no connection is idle
     */
    void claim(ClientSocket socket, Session owner) throws IOException {
        ClientSocket leaving = null;
        synchronized (open) {
            int ofUser = 0;
            int ofAll = 0;
            for (ClientSocket other : open) {
                Session session = other.session();
                ofAll += session == null ? 0 : 1;
                ofUser += session != null && session.user.equals(owner.user) ? 1 : 0;
            }
            if (ofUser >= MAX_OF_A_USER || ofAll >= MAX_OF_SESSIONS) {
                leaving = leastOfSessions(ofUser >= MAX_OF_A_USER ? owner.user : null);
                if (leaving == null) {
                    throw new IOException("too many connections; wait for the answers to earlier requests");
                }
            }
        }
        if (leaving != null) {
            leaving.close();
        }
    }

    private int count(Session session) {
        int count = 0;
        for (ClientSocket socket : open) {
            count += socket.session() == session ? 1 : 0;
        }
        return count;
    }

    private ClientSocket leastStranger() {
        Map<String, Integer> crowds = crowds(socket -> socket.session() == null ? socket.host() : null);
        ClientSocket least = null;
        for (ClientSocket socket : open) {
            if (socket.session() == null && socket.isIdle()
                    && (least == null || rank(socket, crowds) > rank(least, crowds))) {
                least = socket;
            }
        }
        return least;
    }

    /** The higher, the sooner it has to go; of the same rank the one that came first. */
    private static int rank(ClientSocket socket, Map<String, Integer> crowds) {
        return crowds.getOrDefault(socket.host(), 0) * 2 + (socket.isPromising() ? 0 : 1);
    }

    /** The oldest idle one of a user; without one, of the user who has most. */
    private ClientSocket leastOfSessions(String user) {
        Map<String, Integer> crowds = crowds(socket -> socket.session() == null ? null : socket.session().user);
        ClientSocket least = null;
        for (ClientSocket socket : open) {
            Session session = socket.session();
            if (session != null && socket.isIdle() && (user == null || session.user.equals(user))
                    && (least == null || crowds.get(session.user) > crowds.get(least.session().user))) {
                least = socket;
            }
        }
        return least;
    }

    private Map<String, Integer> crowds(Function<ClientSocket, String> key) {
        Map<String, Integer> crowds = new HashMap<>();
        for (ClientSocket socket : open) {
            String name = key.apply(socket);
            if (name != null) {
                crowds.merge(name, 1, Integer::sum);
            }
        }
        return crowds;
    }

    private void closeSilentOnes() {
        while (true) {
            try {
                Thread.sleep(CHECK_MILLISECONDS);
                long now = System.nanoTime();
                for (ClientSocket socket : all()) {
                    if (socket.silence(now) > patience(socket)) {
                        socket.close();
                    }
                }
            } catch (InterruptedException error) {
                return;
            } catch (IOException | RuntimeException error) {
                System.err.println("a silent connection was not closed: " + error);
            }
        }
    }

    private static long patience(ClientSocket socket) {
        if (socket.session() == null) {
            return STRANGERS_NANOSECONDS;
        }
        return socket.isUnfinished() ? UNFINISHED_NANOSECONDS : IDLE_NANOSECONDS;
    }

    private ClientSocket[] all() {
        synchronized (open) {
            return open.toArray(new ClientSocket[0]);
        }
    }
}
