package amqp.gateway.jmx;

import java.util.Map;
import javax.management.ImmutableDescriptor;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.OpenMBeanAttributeInfoSupport;

/** An attribute of a class. */
final class AttributeDefinition {
    final String name;
    final AttributeType type;
    final boolean notifies;
    final boolean always;
    final boolean readable;
    final boolean writable;

    /** What is shown while Python does not call; null where that is the last value. */
    final Object whenAbandoned;

    private final Description description;

    private AttributeDefinition(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(Description.FIELDS + 5, "an attribute");
        description = Description.read(reader);
        name = description.name;
        type = description.type;
        notifies = reader.readBoolean();
        always = reader.readBoolean();
        readable = reader.readBoolean();
        writable = reader.readBoolean();
        whenAbandoned = reader.skipNil() ? null : type.read(reader);
    }

    static AttributeDefinition read(MessageReader reader) throws MalformedException, CommandException {
        return new AttributeDefinition(reader);
    }

    /** What clients are shown of it. */
    OpenMBeanAttributeInfo toInfo() {
        try {
            return info(description.allFields());
        } catch (IllegalArgumentException error) {
            // Java refuses some descriptors, and the attribute must be shown all the same: without range and
            // legal values it is always taken.
            return info(description.fields());
        }
    }

    private OpenMBeanAttributeInfo info(Map<String, ?> fields) {
        return new OpenMBeanAttributeInfoSupport(
            name, description.text(), type.openType, readable, writable, false, new ImmutableDescriptor(fields));
    }
}
