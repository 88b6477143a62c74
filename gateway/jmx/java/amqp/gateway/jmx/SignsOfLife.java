package amqp.gateway.jmx;

/**
 * Whether the Python process lives, which calls every second at least.
 *
 * <p>One that stands still ends nothing: the virtual machine would show its last word as true for ever.
 */
final class SignsOfLife {
    private static final long NANOSECONDS = 1_000_000L;

    private final long silence;
    private volatile long last = System.nanoTime();

    /** For so many milliseconds it may be silent. */
    SignsOfLife(int milliseconds) {
        silence = milliseconds * NANOSECONDS;
    }

    /** Python has called. */
    void heard() {
        last = System.nanoTime();
    }

    /** Whether it has not for so long that it must stand still. */
    boolean areMissing() {
        return System.nanoTime() - last > silence;
    }
}
