package amqp.gateway.jmx;

import java.util.LinkedHashMap;
import java.util.Map;
import javax.management.ObjectName;

/**
 * A name of an MBean, or a pattern of names, held against names within a deadline; as {@link ObjectName#apply}.
 *
 * <p>A query can be one, and be made of some.
 */
final class NamePattern extends Condition {
    private static final long serialVersionUID = 1L;
    private final transient ObjectName pattern;
    /** Null where the domain is no pattern. */
    private final transient Wildcards domain;
    /** By key; null of one that is no pattern. */
    private final transient Map<String, Wildcards> values = new LinkedHashMap<>();

    NamePattern(ObjectName pattern) {
        this.pattern = pattern;
        this.domain = pattern.isDomainPattern() ? Wildcards.ofName(pattern.getDomain()) : null;
        if (pattern.isPropertyPattern()) {
            pattern.getKeyPropertyList().forEach((key, value) -> {
                values.put(key, pattern.isPropertyValuePattern(key) ? Wildcards.ofName(value) : null);
            });
        }
    }

    @Override
    int length() {
        return pattern.getCanonicalName().length();
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        return matches(one.name, one.deadline);
    }

    boolean matches(ObjectName name, Deadline deadline) throws UnfitException, RefusedQueryException {
        deadline.check();
        if (name.isPattern()) {
            return false;
        }
        if (!pattern.isPattern()) {
            return pattern.getCanonicalName().equals(name.getCanonicalName());
        }
        boolean isInDomain = domain == null
            ? pattern.getDomain().equals(name.getDomain()) : domain.matches(name.getDomain(), deadline);
        if (!isInDomain || !pattern.isPropertyPattern()) {
            return isInDomain && pattern.getCanonicalKeyPropertyListString()
                .equals(name.getCanonicalKeyPropertyListString());
        }
        return hasProperties(name, deadline);
    }

    private boolean hasProperties(ObjectName name, Deadline deadline)
            throws UnfitException, RefusedQueryException {
        if (!pattern.isPropertyListPattern() && name.getKeyPropertyList().size() != values.size()) {
            return false;
        }
        for (Map.Entry<String, Wildcards> each : values.entrySet()) {
            String value = name.getKeyProperty(each.getKey());
            if (value == null || !(each.getValue() == null ? value.equals(pattern.getKeyProperty(each.getKey()))
                    : each.getValue().matches(value, deadline))) {
                return false;
            }
        }
        return true;
    }
}
