package amqp.gateway.jmx;

import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.function.IntSupplier;
import javax.management.remote.JMXAuthenticator;
import javax.management.remote.JMXPrincipal;
import javax.security.auth.Subject;
import py4j.Py4JException;

/** Asks Python whether a user may log in; whatever fails, the login is refused. */
final class Authenticator implements JMXAuthenticator {
    static final int MAX_SESSIONS = 50;
    private static final int MAX_AT_A_TIME = 8;
    private static final int MAX_LENGTH = 1024;
    private static final String REFUSED = "user or password is wrong, or missing";

    private final Backend backend;
    private final IntSupplier sessions;
    private final Semaphore places = new Semaphore(MAX_AT_A_TIME);

    /** {@code sessions} returns how many clients are connected. */
    Authenticator(Backend backend, IntSupplier sessions) {
        this.backend = backend;
        this.sessions = sessions;
    }

    /**
     * Returns the user who has these credentials.
     *
     * @throws SecurityException the login is refused
     */
    @Override
    public Subject authenticate(Object credentials) {
        if (!(credentials instanceof String[])) {
            throw new SecurityException(REFUSED);
        }
        String[] pair = (String[]) credentials;
        if (pair.length != 2 || !usable(pair[0]) || !usable(pair[1]) || pair[0].isEmpty()) {
            throw new SecurityException(REFUSED);
        }
        // Before Python is asked: strangers cost it nothing while the places are taken.
        if (sessions.getAsInt() >= MAX_SESSIONS) {
            throw new SecurityException(MAX_SESSIONS + " clients are connected, which is the most there may be");
        }
        // Python delays the answer to a wrong password: without a bound those who guess would take all
        // threads.
        if (!places.tryAcquire()) {
            throw new SecurityException("too many clients log in at a time; try again");
        }
        try {
            if (!isKnown(pair[0], pair[1])) {
                throw new SecurityException(REFUSED);
            }
        } finally {
            places.release();
        }
        return new Subject(true, Set.of(new JMXPrincipal(pair[0])), Set.of(), Set.of());
    }

    private static boolean usable(String text) {
        return text != null && text.length() <= MAX_LENGTH;
    }

    private boolean isKnown(String user, String password) {
        byte[] request = new MessageWriter().array(4)
            .string("authenticate").string(user).string(password).string(Caller.host()).toBytes();
        try {
            Answer answer = Answer.read(backend.call(request));
            return answer.status == Status.APPLIED;
        } catch (Py4JException | MalformedException | CommandException error) {
            System.err.println("nobody can log in, because the gateway does not answer: " + error.getMessage());
            return false;
        }
    }
}
