package amqp.gateway.jmx;

import java.math.BigDecimal;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.management.Descriptor;
import javax.management.ImmutableDescriptor;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.OpenMBeanAttributeInfoSupport;

/** One attribute of a class, as it was told; what clients are shown of it is made so that Java accepts it. */
final class AttributeDefinition {
    /** Fields of a descriptor that Java reads a meaning into: only from values of the right type. */
    private static final Set<String> RESERVED =
        Set.of("opentype", "originaltype", "defaultvalue", "legalvalues", "minvalue", "maxvalue");

    final String name;
    final AttributeType type;
    final boolean notifies;
    final boolean always;
    private final String description;
    private final BigDecimal minimum;
    private final BigDecimal maximum;
    private final Set<String> legal;
    private final Map<String, Object> fields;

    private AttributeDefinition(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(9, "an attribute");
        name = reader.readString();
        type = AttributeType.read(reader.readLong());
        description = reader.readString();
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
        notifies = reader.readBoolean();
        always = reader.readBoolean();
    }

    static AttributeDefinition read(MessageReader reader) throws MalformedException, CommandException {
        return new AttributeDefinition(reader);
    }

    /**
     * What clients are shown of it.
     *
     * <p>Java refuses a range together with legal values, a range upside down, limits of types without order,
     * and more. No attribute is lost for that: what does not go is left out.
     */
    OpenMBeanAttributeInfo toInfo() {
        Map<String, Object> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        all.putAll(fields);
        if (type == AttributeType.STRING && !legal.isEmpty()) {
            all.put("legalValues", legal);
        } else {
            limit("minValue", minimum, all);
            limit("maxValue", maximum, all);
        }
        try {
            return info(all);
        } catch (IllegalArgumentException error) {
            return info(fields);
        }
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

    private OpenMBeanAttributeInfo info(Map<String, ?> descriptorFields) {
        String text = description.isBlank() ? name : description;
        Descriptor descriptor = new ImmutableDescriptor(descriptorFields);
        return new OpenMBeanAttributeInfoSupport(name, text, type.openType, true, false, false, descriptor);
    }
}
