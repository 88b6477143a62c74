package amqp.gateway.jmx;

import java.lang.reflect.Method;
import java.security.AccessController;
import javax.management.remote.JMXPrincipal;
import javax.security.auth.Subject;

/** The client whose request the current thread carries out. */
final class Caller {
    /** {@code Subject.current()} of Java 18 and later; null before. */
    private static final Method CURRENT = current();

    private Caller() {
    }

    /**
     * The user who logged in.
     *
     * @throws SecurityException there is none, so nothing may be changed
     */
    static String user() {
        return userOf(subject());
    }

    /** The user of a subject, as {@link #user}. */
    static String userOf(Subject subject) {
        if (subject != null) {
            for (JMXPrincipal principal : subject.getPrincipals(JMXPrincipal.class)) {
                return principal.getName();
            }
        }
        throw new SecurityException("there is no user: log in first");
    }

    /** Whether any rule lets the user change anything; what, the gateway's core decides. */
    static boolean mayChange() {
        return mayChange(subject());
    }

    /** Whether any rule lets the user of a subject change anything. */
    static boolean mayChange(Subject subject) {
        return loginOf(subject).mayChange;
    }

    /**
     * The number of the user who logged in, by which the policy shows MBeans.
     *
     * @throws SecurityException there is none, so nothing is shown
     */
    static int number() {
        return numberOf(subject());
    }

    /** The number of the user of a subject, as {@link #number}. */
    static int numberOf(Subject subject) {
        return loginOf(subject).number;
    }

    private static Login loginOf(Subject subject) {
        if (subject != null) {
            for (Login login : subject.getPublicCredentials(Login.class)) {
                return login;
            }
        }
        throw new SecurityException("there is no user: log in first");
    }

    /** The address that the request came from; empty where there is none. */
    static String host() {
        return ClientSocket.currentHost();
    }

    /** What Python said of a user at the login. */
    static final class Login {
        private final int number;
        private final boolean mayChange;

        Login(int number, boolean mayChange) {
            this.number = number;
            this.mayChange = mayChange;
        }
    }

    private static Subject subject() {
        // By reflection: the classes are compiled for Java 11, `current` came with Java 18, and later
        // versions disable the older method.
        if (CURRENT == null) {
            return Subject.getSubject(AccessController.getContext());
        }
        try {
            return (Subject) CURRENT.invoke(null);
        } catch (ReflectiveOperationException error) {
            return null;
        }
    }

    private static Method current() {
        try {
            return Subject.class.getMethod("current");
        } catch (NoSuchMethodException error) {
            return null;
        }
    }
}
