package amqp.gateway.jmx;

import javax.management.openmbean.CompositeData;

/** An event or an operation, as notifications report it, and what each user receives of it. */
final class Event {
    /** In place of the number of a variant. */
    static final int NOTHING = -1;

    final String type;
    final long time;
    final long sequence;
    private final Variant[] variants;
    private final int[] choices;
    private final Policy policy;

    /** One form of it. */
    static final class Variant {
        final String message;
        final CompositeData data;

        Variant(String message, CompositeData data) {
            this.message = message;
            this.data = data;
        }
    }

    /**
     * An event under a policy.
     *
     * @param time in milliseconds
     * @param choices by the number of the user, which variant is received, or {@link #NOTHING}; none at all where
     *     everybody receives the first
     */
    Event(String type, long time, long sequence, Variant[] variants, int[] choices, Policy policy) {
        this.type = type;
        this.time = time;
        this.sequence = sequence;
        this.variants = variants;
        this.choices = choices;
        this.policy = policy;
    }

    /** What a user receives; null for nothing. */
    Variant variant(int user) {
        if (choices.length == 0) {
            return variants[0];
        }
        boolean isKnown = user >= 0 && user < choices.length && choices[user] >= 0;
        return isKnown && policy.isValidFor(user) ? variants[choices[user]] : null;
    }
}
