package amqp.gateway.jmx;

import java.security.cert.CertificateEncodingException;
import java.security.cert.X509Certificate;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.management.remote.JMXAuthenticator;
import javax.management.remote.JMXPrincipal;
import javax.security.auth.Subject;
import py4j.Py4JException;

/**
 * Asks Python who logs in, by password or by the certificate of the connection; where that fails, the login is refused.
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

    /** It could not be decided who logs in. */
    static final class UndecidedException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        UndecidedException(String text) {
            super(text);
        }
    }

    /**
     * Returns the user who has these credentials, or, without any, whose certificate the connection has proved.
     *
     * @throws SecurityException the login is refused
     * @throws UndecidedException there is no answer in time
     */
    @Override
    public Subject authenticate(Object credentials) {
        byte[] certificate = certificate();
        if (credentials == null && certificate != null) {
            return user("", new MessageWriter().array(3)
                .string("identify").bytes(certificate).string(Caller.host()));
        }
        if (!(credentials instanceof String[])) {
            throw unusable();
        }
        String[] pair = (String[]) credentials;
        if (pair.length != 2 || !usable(pair[0]) || !usable(pair[1]) || pair[0].isEmpty()) {
            throw unusable();
        }
        MessageWriter request = new MessageWriter().array(5).string("authenticate").string(pair[0]).string(pair[1]);
        request = certificate == null ? request.nil() : request.bytes(certificate);
        return user(pair[0], request.string(Caller.host()));
    }

    /** The certificate of the connection, in DER; null without one. */
    private byte[] certificate() {
        try {
            X509Certificate proved = ClientSocket.current().certificate();
            return proved == null ? null : proved.getEncoded();
        } catch (CertificateEncodingException error) {
            throw unusable();
        }
    }

    /** The user whom Python names; {@code claimed} is who the client says it is, which may be empty. */
    private Subject user(String claimed, MessageWriter request) {
        // Before Python is asked: strangers cost it nothing while the places are taken.
        requirePlace(claimed);
        Answer answer = ask(request.toBytes());
        if (answer.status == Status.APPLIED) {
            return subject(answer);
        }
        if (answer.status != Status.REFUSED) {
            throw new UndecidedException(answer.status == Status.NOT_NOW ? answer.text
                : "the gateway could not say whether the password is right: see its log");
        }
        ClientSocket.current().delay(FAILURE_MILLISECONDS);
        throw new SecurityException(answer.text.isEmpty() ? REFUSED : answer.text);
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

    private Answer ask(byte[] request) {
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

    private static Subject subject(Answer answer) {
        try {
            boolean mayChange = answer.items.readArray() > 2;
            JMXPrincipal user = new JMXPrincipal(answer.items.readString());
            Caller.Login login = new Caller.Login(answer.items.readInt(0, Integer.MAX_VALUE), mayChange);
            return new Subject(true, Set.of(user), Set.of(login), Set.of());
        } catch (MalformedException | CommandException error) {
            throw new UndecidedException("the gateway did not say who the user is: " + error.getMessage());
        }
    }
}
