package amqp.gateway.jmx;

/** Objects that are believed or not believed together. */
final class Group {
    /** Numbered as {@code gateway/jmx/commands.py} tells. */
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

    /** Whether whoever tells how far they can be believed stands still. */
    boolean isAbandoned() {
        return python.areMissing();
    }

    boolean isWithheld() {
        return freshness == Freshness.WITHHELD;
    }
}
