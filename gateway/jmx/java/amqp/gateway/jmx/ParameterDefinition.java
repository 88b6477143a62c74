package amqp.gateway.jmx;

import java.util.Map;
import javax.management.ImmutableDescriptor;
import javax.management.openmbean.OpenMBeanParameterInfo;
import javax.management.openmbean.OpenMBeanParameterInfoSupport;

/** A parameter of an operation. */
final class ParameterDefinition {
    final AttributeType type;
    private final Description description;
    private final Object standard;

    private ParameterDefinition(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(Description.FIELDS + 1, "a parameter");
        description = Description.read(reader);
        type = description.type;
        standard = reader.skipNil() ? null : type.read(reader);
    }

    static ParameterDefinition read(MessageReader reader) throws MalformedException, CommandException {
        return new ParameterDefinition(reader);
    }

    /** Never empty. */
    String name() {
        return description.name.isBlank() ? "-" : description.name;
    }

    /** What clients are shown of it. */
    OpenMBeanParameterInfo toInfo() {
        Map<String, Object> fields = description.allFields();
        if (standard != null) {
            fields.put("defaultValue", standard);
        }
        try {
            return info(fields);
        } catch (IllegalArgumentException error) {
            return info(description.fields());
        }
    }

    private OpenMBeanParameterInfo info(Map<String, ?> fields) {
        String name = name();
        String text = description.text().isBlank() ? name : description.text();
        return new OpenMBeanParameterInfoSupport(name, text, type.openType, new ImmutableDescriptor(fields));
    }
}
