package amqp.gateway.jmx;

/** Objects that become stale and fresh together. */
final class Group {
    /** Numbered as in {@code gateway/feed/freshness.py}. */
    enum Freshness { FRESH, STALE, WITHHELD }

    private final SignsOfLife python;
    private volatile Freshness freshness = Freshness.STALE;

    Group(SignsOfLife python) {
        this.python = python;
    }

    void set(int number) {
        freshness = Freshness.values()[number - 1];
    }

    boolean isStale() {
        return freshness != Freshness.FRESH || python.areMissing();
    }

    /** Whether Python does not call any more, so that freshness is unknown. */
    boolean isAbandoned() {
        return python.areMissing();
    }

    boolean isWithheld() {
        return freshness == Freshness.WITHHELD;
    }
}
