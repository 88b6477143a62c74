package amqp.gateway.jmx;

/** Objects that are believed or not believed together. */
final class Group {
    /** Numbered as {@code gateway/jmx/commands.py} tells. */
    enum Freshness { FRESH, STALE, WITHHELD }

    private volatile Freshness freshness = Freshness.STALE;

    void set(int number) {
        freshness = Freshness.values()[number - 1];
    }

    boolean isStale() {
        return freshness != Freshness.FRESH;
    }

    boolean isWithheld() {
        return freshness == Freshness.WITHHELD;
    }
}
