package amqp.gateway.jmx;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

/** The clients that are logged in: how many there may be, and what each user may do at a time. */
final class Sessions {
    static final int MAX = 50;
    /** Of one user, so that one who takes all he can leaves places for others. */
    static final int MAX_OF_A_USER = 30;
    /** From one address. */
    static final int MAX_OF_AN_ADDRESS = 45;

    private static final int LARGE_REQUESTS = 4;
    private static final int QUERIES = 4;

    private final Set<Session> open = new HashSet<>();
    /** As many as users who have ever logged in, which are those of the configuration. */
    private final Map<String, Shares> shares = new HashMap<>();
    /** Of all users together. */
    private final Semaphore largeRequests = new Semaphore(LARGE_REQUESTS, true);
    private final Semaphore queries = new Semaphore(QUERIES, true);

    /** What the listeners of all sessions take of the heap. */
    final AtomicLong listenerOctets = new AtomicLong();

    /** What the requests of one user take at a time. */
    static final class Shares {
        final Semaphore reads = new Semaphore(16, true);
        final Semaphore[] largeRequests;
        final Semaphore[] queries;

        private Shares(Semaphore allLargeRequests, Semaphore allQueries) {
            largeRequests = new Semaphore[] {new Semaphore(LARGE_REQUESTS / 2, true), allLargeRequests};
            queries = new Semaphore[] {new Semaphore(QUERIES / 2, true), allQueries};
        }
    }

    synchronized int count() {
        return open.size();
    }

    /** What the requests of all sessions of a user share. */
    synchronized Shares shares(String user) {
        return shares.computeIfAbsent(user, name -> new Shares(largeRequests, queries));
    }

    /**
     * Checks that there is a place, before anybody is asked about a password.
     *
     * @throws SecurityException there is none
     */
    synchronized void requirePlace() {
        if (open.size() >= MAX) {
            throw new SecurityException(MAX + " clients are connected, which is the most there may be");
        }
    }

    /**
     * A client has logged in.
     *
     * @throws SecurityException there is no place for it
     */
    synchronized void add(Session session) {
        requirePlace();
        if (open.stream().filter(other -> other.user.equals(session.user)).count() >= MAX_OF_A_USER) {
            throw new SecurityException(MAX_OF_A_USER + " clients of the user " + session.user
                + " are connected, which is the most there may be of one user");
        }
        if (open.stream().filter(other -> other.host.equals(session.host)).count() >= MAX_OF_AN_ADDRESS) {
            throw new SecurityException(MAX_OF_AN_ADDRESS + " clients from " + session.host
                + " are connected, which is the most there may be from one address");
        }
        open.add(session);
    }

    synchronized void remove(Session session) {
        open.remove(session);
    }
}
