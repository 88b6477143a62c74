package amqp.gateway.jmx;

/** One state of the policy: what was decided by it holds until another takes its place. */
final class Policy {
    /** Null while it is the present one. */
    private volatile boolean[] unrestrictedSince;

    /** Another policy takes its place, which restricts all users but these. */
    void end(boolean[] unrestricted) {
        boolean[] before = unrestrictedSince;
        boolean[] now = unrestricted.clone();
        for (int user = 0; before != null && user < now.length; user++) {
            now[user] &= user < before.length && before[user];
        }
        unrestrictedSince = now;
    }

    /** Whether what it let a user see may be shown. */
    boolean isValidFor(int user) {
        boolean[] unrestricted = unrestrictedSince;
        return unrestricted == null || user < unrestricted.length && unrestricted[user];
    }
}
