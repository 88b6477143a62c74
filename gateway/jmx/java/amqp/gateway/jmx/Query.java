package amqp.gateway.jmx;

import java.util.HashSet;
import java.util.Set;
import java.util.function.Function;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;

/** A search among MBeans, by a pattern of names and a query, for a bounded time. */
final class Query {
    /** Characters of a pattern of names. */
    private static final int MAX_PATTERN = 4096;

    /** Null where the server of MBeans finds the name itself. */
    private final NamePattern pattern;
    private final Condition condition;

    /**
     * Takes what a client has asked for.
     *
     * @param name null for all
     * @param condition null for none
     */
    Query(ObjectName name, Condition condition) throws RefusedQueryException {
        if (name != null && name.getCanonicalName().length() > MAX_PATTERN) {
            throw new RefusedQueryException("a pattern of more than " + MAX_PATTERN + " characters");
        }
        // A name without a domain is one of the default domain, which is for the server to say.
        this.pattern = name == null || !name.isPattern() || name.getDomain().isEmpty() ? null : new NamePattern(name);
        this.condition = condition;
    }

    /** What the server of MBeans has to be asked for: only a domain, as it compares for as long as it takes. */
    ObjectName asked(ObjectName name) {
        if (pattern == null) {
            return name;
        }
        try {
            return name.isDomainPattern() ? null : new ObjectName(name.getDomain() + ":*");
        } catch (MalformedObjectNameException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * Keeps those that match, and for whose MBean the condition is true, as the server of MBeans does.
     *
     * @throws RefusedQueryException it takes too long
     */
    <T> Set<T> select(Set<T> found, Function<T, ObjectName> name, Viewer viewer, Deadline deadline)
            throws RefusedQueryException {
        if (pattern == null && condition == null) {
            return found;
        }
        Set<T> selected = new HashSet<>();
        for (T one : found) {
            if (isSelected(new Candidate(name.apply(one), viewer, deadline))) {
                selected.add(one);
            }
        }
        return selected;
    }

    private boolean isSelected(Candidate one) throws RefusedQueryException {
        try {
            return (pattern == null || one.isTrue(pattern)) && (condition == null || one.isTrue(condition));
        } catch (Expression.UnfitException | RuntimeException error) {
            // As of an MBean without the attribute.
            return false;
        }
    }
}
