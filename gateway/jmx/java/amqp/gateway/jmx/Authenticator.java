package amqp.gateway.jmx;

import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.management.remote.JMXAuthenticator;
import javax.management.remote.JMXPrincipal;
import javax.security.auth.Subject;
import py4j.Py4JException;

/**
 * Asks Python whether a user may log in; where that fails, the user may not.
 *
 * <p>The answer to a wrong password is kept back, which slows guessing down: each guess holds a connection of a
 * stranger, of which there are few. It holds no place among those who are asked about, so that a right login
 * is decided in its turn, at once, however many guess.
 */
final class Authenticator implements JMXAuthenticator {
    /** For so long the answer to a wrong password is kept back. */
    static final long FAILURE_MILLISECONDS = 500;

    private static final int MAX_AT_A_TIME = 8;
    private static final int PATIENCE_SECONDS = 10;
    private static final int MAX_LENGTH = 1024;
    private static final String REFUSED = "user or password is wrong, or missing";

    private final Backend backend;
    private final Sessions sessions;
    private final Denials denials;
    private final Semaphore places = new Semaphore(MAX_AT_A_TIME, true);

    Authenticator(Backend backend, Sessions sessions, Denials denials) {
        this.backend = backend;
        this.sessions = sessions;
        this.denials = denials;
    }

    /** It could not be decided whether the password is right. */
    static final class UndecidedException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        UndecidedException(String text) {
            super(text);
        }
    }

    /**
     * Returns the user who has these credentials.
     *
     * @throws SecurityException the login is refused
     * @throws UndecidedException there is no answer in time
     */
    @Override
    public Subject authenticate(Object credentials) {
        if (!(credentials instanceof String[])) {
            throw unusable();
        }
        String[] pair = (String[]) credentials;
        if (pair.length != 2 || !usable(pair[0]) || !usable(pair[1]) || pair[0].isEmpty()) {
            throw unusable();
        }
        // Before Python is asked: strangers cost it nothing while the places are taken.
        requirePlace(pair[0]);
        Answer answer = ask(pair[0], pair[1]);
        if (answer.status == Status.APPLIED) {
            return new Subject(true, Set.of(new JMXPrincipal(pair[0])), Set.of(login(answer)), Set.of());
        }
        if (answer.status != Status.REFUSED) {
            throw new UndecidedException(answer.status == Status.NOT_NOW ? answer.text
                : "the gateway could not say whether the password is right: see its log");
        }
        ClientSocket.current().delay(FAILURE_MILLISECONDS);
        throw new SecurityException(REFUSED);
    }

    private SecurityException unusable() {
        denials.report(Denials.Kind.LOGIN, "", Caller.host(), "user or password is missing, or too long");
        ClientSocket.current().delay(FAILURE_MILLISECONDS);
        return new SecurityException(REFUSED);
    }

    private void requirePlace(String user) {
        try {
            sessions.requirePlace();
        } catch (SecurityException error) {
            denials.report(Denials.Kind.LOGIN, user, Caller.host(), error.getMessage());
            throw error;
        }
    }

    private static boolean usable(String text) {
        return text != null && text.length() <= MAX_LENGTH;
    }

    private Answer ask(String user, String password) {
        byte[] request = new MessageWriter().array(4)
            .string("authenticate").string(user).string(password).string(Caller.host()).toBytes();
        boolean isAsked = false;
        try {
            isAsked = places.tryAcquire(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (isAsked) {
                return Answer.read(backend.call(request));
            }
        } catch (Py4JException | MalformedException | CommandException error) {
            System.err.println("nobody can log in, because the gateway does not answer: " + error.getMessage());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } finally {
            if (isAsked) {
                places.release();
            }
        }
        return Answer.refused(Status.NOT_NOW,
            "time-out: the gateway did not answer in time whether the password is right; try again");
    }

    private static Caller.Login login(Answer answer) {
        try {
            boolean mayChange = answer.items.readArray() > 1;
            return new Caller.Login(answer.items.readInt(0, Integer.MAX_VALUE), mayChange);
        } catch (MalformedException | CommandException error) {
            throw new UndecidedException("the gateway did not say who the user is: " + error.getMessage());
        }
    }
}
