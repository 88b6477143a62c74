package amqp.gateway.jmx;

import java.io.ObjectStreamException;
import java.rmi.AccessException;
import java.rmi.UnmarshalException;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * Reports the calls that RMI refuses before any class of ours is asked: of the registry, of the collector of remote
 * objects, and those with a class that is not here.
 *
 * <p>The registry takes a filter as a pattern only, so what it refuses is learnt from RMI's own log of calls, which
 * is written in the thread that serves the client.
 */
final class RefusedCalls extends Handler {
    private static final String REGISTRY = "sun.rmi.registry.";
    private static final String COLLECTOR = "sun.rmi.transport.DGCImpl";
    private static final int MAX_TEXT = 200;
    /** Held here, because the log manager forgets loggers, and their levels with them. */
    private static final Logger CALLS = Logger.getLogger("sun.rmi.server.call");

    private final Denials denials;

    private RefusedCalls(Denials denials) {
        this.denials = denials;
    }

    /** Reports them from now on. */
    static void watch(Denials denials) {
        CALLS.setUseParentHandlers(false);
        CALLS.addHandler(new RefusedCalls(denials));
        // Exceptions of calls, and not each call.
        CALLS.setLevel(Level.FINE);
    }

    @Override
    public void publish(LogRecord entry) {
        Throwable thrown = entry.getThrown();
        if (thrown instanceof AccessException || thrown instanceof UnmarshalException) {
            if (isOf(thrown, REGISTRY)) {
                refused(Denials.Kind.REQUEST, "the registry", thrown);
            } else if (isOf(thrown, COLLECTOR)) {
                refused(Denials.Kind.REQUEST, "the collector of remote objects", thrown);
            } else if (thrown.getCause() instanceof ClassNotFoundException) {
                boolean isStranger = ClientSocket.current().session() == null;
                refused(isStranger ? Denials.Kind.LOGIN : Denials.Kind.REQUEST, "the gateway", thrown);
            }
        }
    }

    private void refused(Denials.Kind kind, String by, Throwable thrown) {
        Throwable cause = thrown.getCause();
        // A connection that breaks is no attempt.
        if (cause == null || cause instanceof ObjectStreamException || cause instanceof ClassNotFoundException
                || cause instanceof ClassCastException) {
            ClientSocket socket = ClientSocket.current();
            String user = socket.session() == null ? "" : socket.session().user;
            denials.report(kind, user, socket.host(), by + " refused it: " + reason(thrown));
            socket.delay(Authenticator.FAILURE_MILLISECONDS);
        }
    }

    private static String reason(Throwable thrown) {
        Throwable cause = thrown.getCause();
        // RMI adds, behind the name, why it loaded no class.
        String text = cause instanceof ClassNotFoundException
            ? "there is no class " + String.valueOf(cause.getMessage()).split(" ", 2)[0]
            : String.valueOf(cause == null ? thrown.getMessage() : cause);
        return text.length() <= MAX_TEXT ? text : text.substring(0, MAX_TEXT);
    }

    private static boolean isOf(Throwable thrown, String prefix) {
        for (StackTraceElement frame : thrown.getStackTrace()) {
            if (frame.getClassName().startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    @Override
    public void flush() {
        // Nothing is kept.
    }

    @Override
    public void close() {
        // It ends with the process.
    }
}
