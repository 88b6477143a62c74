package amqp.gateway.jmx;

import java.util.Arrays;

/** A value that is not the same for all users. */
final class Varying {
    private final Object[] values;
    private final int[] choices;

    /** @param choices by the number of the user, which of the values is shown */
    Varying(Object[] values, int[] choices) {
        this.values = values;
        this.choices = choices;
    }

    /** The value for a user; null for one who is not among those that have values. */
    Object of(int user) {
        return user >= 0 && user < choices.length && choices[user] >= 0 ? values[choices[user]] : null;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Varying && Arrays.equals(choices, ((Varying) other).choices)
            && Arrays.deepEquals(values, ((Varying) other).values);
    }

    @Override
    public int hashCode() {
        return Arrays.deepHashCode(values);
    }
}
