package amqp.gateway.jmx;

import java.math.BigDecimal;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What is said of a value, an attribute's or a parameter's: made so that Java accepts it.
 *
 * <p>Java refuses a range together with legal values, a range upside down, limits of types without order, and
 * more. Nothing is lost for that: what does not go is left out.
 */
final class Description {
    /** Fields of a descriptor that Java reads a meaning into: only from values of the right type. */
    private static final Set<String> RESERVED =
        Set.of("opentype", "originaltype", "defaultvalue", "legalvalues", "minvalue", "maxvalue");

    /** How many fields it takes of the array that it stands in. */
    static final int FIELDS = 7;

    final String name;
    final AttributeType type;
    private final String text;
    private final BigDecimal minimum;
    private final BigDecimal maximum;
    private final Set<String> legal;
    private final Map<String, Object> fields;

    private Description(MessageReader reader) throws MalformedException, CommandException {
        name = reader.readString();
        type = AttributeType.read(reader.readLong());
        text = reader.readString();
        minimum = reader.skipNil() ? null : reader.readNumber();
        maximum = reader.skipNil() ? null : reader.readNumber();
        legal = new LinkedHashSet<>();
        for (int left = reader.readArray(); left > 0; left--) {
            legal.add(reader.readString());
        }
        fields = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);  // as names in a descriptor are compared
        for (int left = reader.readMap(); left > 0; left--) {
            String field = reader.readString();
            String value = reader.readString();
            if (!field.isEmpty() && !RESERVED.contains(field.toLowerCase(Locale.ROOT))) {
                fields.put(field, value);
            }
        }
    }

    static Description read(MessageReader reader) throws MalformedException, CommandException {
        return new Description(reader);
    }

    /** Never empty. */
    String text() {
        return text.isBlank() ? name : text;
    }

    /** The descriptor without range and legal values, which Java takes always. */
    Map<String, Object> fields() {
        return fields;
    }

    /** The descriptor with all there is to say; what is made of it may be refused. */
    Map<String, Object> allFields() {
        Map<String, Object> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        all.putAll(fields);
        if (type == AttributeType.STRING && !legal.isEmpty()) {
            all.put("legalValues", legal);
        } else {
            limit("minValue", minimum, all);
            limit("maxValue", maximum, all);
        }
        return all;
    }

    private void limit(String field, BigDecimal value, Map<String, Object> all) {
        try {
            Comparable<?> limit = value == null ? null : type.limit(value);
            if (limit != null) {
                all.put(field, limit);
            }
        } catch (ArithmeticException error) {
            // A limit that the type does not hold limits nothing.
        }
    }
}
