package amqp.gateway.jmx;

/**
 * Whether the Python process responds, which sends a batch every second at least.
 *
 * <p>A process that hangs closes no connection: without this, its last values would be shown as fresh for ever.
 */
final class SignsOfLife {
    private static final long NANOSECONDS = 1_000_000L;

    private final long silence;
    private volatile long last = System.nanoTime();

    /** For so many milliseconds it may be silent. */
    SignsOfLife(int milliseconds) {
        silence = milliseconds * NANOSECONDS;
    }

    /** Python has sent a batch. */
    void received() {
        last = System.nanoTime();
    }

    /** Whether Python has sent nothing for so long that it hangs. */
    boolean areMissing() {
        return System.nanoTime() - last > silence;
    }
}
