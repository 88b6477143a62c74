package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.ObjectName;
import javax.management.RuntimeOperationsException;

/** What a client asks a {@link Table} for. */
final class PageRequest {
    /** Objects of a page. */
    static final int MAX_ROWS = 10_000;
    /** Attributes of a page; more than any class has. */
    static final int MAX_COLUMNS = 500;

    /** In their order, each once; empty for all. */
    private final Set<String> attributes;
    /** The object behind which the page begins; null for the first page. */
    final ObjectName from;
    /** Objects at most, 1 to {@link #MAX_ROWS}. */
    final int limit;

    private PageRequest(Set<String> attributes, ObjectName from, int limit) {
        this.attributes = attributes;
        this.from = from;
        this.limit = limit;
    }

    static PageRequest of(Object[] parameters) {
        if (parameters == null || parameters.length != 3) {
            throw illegal("wrong-value: read takes attributes, from and limit");
        }
        if (parameters[1] != null && !(parameters[1] instanceof String)) {
            throw illegal("wrong-type: from is a java.lang.String, what the page before returned as next");
        }
        if (!(parameters[2] instanceof Integer)) {
            throw illegal("wrong-type: limit is a java.lang.Integer");
        }
        int limit = (Integer) parameters[2];
        if (limit < 0) {
            throw illegal("out-of-range: limit is " + limit + "; 0 asks for as many objects as a page can have");
        }
        return new PageRequest(attributes(parameters[0]), from((String) parameters[1]),
            limit == 0 ? MAX_ROWS : Math.min(limit, MAX_ROWS));
    }

    private static Set<String> attributes(Object given) {
        Set<String> attributes = new LinkedHashSet<>();
        if (given instanceof String) {
            for (String attribute : ((String) given).split(",")) {
                attributes.add(attribute.strip());
            }
            attributes.remove("");
        } else if (given instanceof String[]) {
            attributes.addAll(Arrays.asList((String[]) given));
        } else if (given != null) {
            throw illegal("wrong-type: attributes is an array of java.lang.String, or one with commas");
        }
        if (attributes.size() > MAX_COLUMNS) {
            throw illegal("wrong-length: " + attributes.size() + " attributes; a page has " + MAX_COLUMNS
                + " at most");
        }
        return attributes;
    }

    private static ObjectName from(String text) {
        if (text == null || text.isBlank()) {
            return null;
        }
        try {
            return AttributeType.objectName(text);
        } catch (CommandException error) {
            throw illegal("wrong-value: from is what the page before returned as next: " + error.getMessage());
        }
    }

    /**
     * The attributes of the page with their types.
     *
     * @param versions the rights to the versions of the class that have objects; none where it never had any
     * @throws RuntimeOperationsException some are not attributes of the class that can be read
     */
    Map<String, AttributeDefinition> columns(Collection<Rights> versions, String className) {
        Map<String, AttributeDefinition> readable = new LinkedHashMap<>();
        Set<String> ambiguous = new LinkedHashSet<>();
        for (Rights version : versions) {
            for (String name : version.readable()) {
                AttributeDefinition attribute = version.definition.attribute(version.definition.position(name));
                AttributeDefinition other = readable.putIfAbsent(name, attribute);
                if (other != null && other.type != attribute.type) {
                    ambiguous.add(name);
                }
            }
        }
        Map<String, AttributeDefinition> columns = new LinkedHashMap<>();
        List<String> unknown = new ArrayList<>();
        for (String name : attributes.isEmpty() ? readable.keySet() : attributes) {
            if (readable.containsKey(name) && !ambiguous.contains(name)) {
                columns.put(name, readable.get(name));
            } else if (!ClassDefinition.STALE.equals(name) && !attributes.isEmpty()) {
                unknown.add(name);
            }
        }
        if (!unknown.isEmpty()) {
            boolean isAmbiguous = ambiguous.containsAll(unknown);
            throw illegal(isAmbiguous
                ? "not-now: objects of " + className + " have these attributes with different types, read them singly: "
                    + shown(unknown)
                : "unknown-element: " + className + " has no attributes that can be read: " + shown(unknown));
        }
        return columns;
    }

    private static String shown(List<String> names) {
        String text = String.join(", ", names);
        return text.length() <= Refusals.MAX_TEXT ? text : text.substring(0, Refusals.MAX_TEXT) + "...";
    }

    static RuntimeOperationsException illegal(String text) {
        return new RuntimeOperationsException(new IllegalArgumentException(text), text);
    }
}
