package amqp.gateway.jmx;

import javax.management.openmbean.CompositeData;

/** An event or an operation, as notifications report it, and what each user receives of it. */
final class Event implements KeptNotifications.Content {
    /** In place of the number of a variant. */
    static final int NOTHING = -1;

    final String type;
    final long time;
    final long sequence;
    /** Null where they are forgotten. */
    private volatile Variant[] variants;
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

    @Override
    public void forget() {
        variants = null;
    }

    /**
     * What a user receives; null for nothing.
     *
     * @throws ForgottenException there is something, but it is forgotten
     */
    Variant variant(int user) throws ForgottenException {
        int choice = 0;
        if (choices.length > 0) {
            boolean isKnown = user >= 0 && user < choices.length && policy.isValidFor(user);
            choice = isKnown ? choices[user] : NOTHING;
        }
        if (choice == NOTHING) {
            return null;
        }
        Variant[] kept = variants;
        if (kept == null) {
            throw new ForgottenException();
        }
        return kept[choice];
    }
}
