package amqp.gateway.jmx;

import java.util.concurrent.TimeUnit;

/** When a search has to have ended, by the clock of the virtual machine. */
final class Deadline {
    /** Less than the time for which others wait for its place. */
    static final long MAX_MILLISECONDS = 5000;

    private final long end;

    Deadline(long milliseconds) {
        end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    }

    /** Ends a search that takes too long; called inside of each step that is not short by its nature. */
    void check() throws RefusedQueryException {
        if (System.nanoTime() - end > 0) {
            throw new RefusedQueryException("it takes too long: ask for less");
        }
    }
}
