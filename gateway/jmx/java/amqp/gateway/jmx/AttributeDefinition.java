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
    /** Whether each user has a value of his own ({@link Varying}). */
    final boolean varies;

    /** What is shown while Python does not call; null where that is the last value. */
    final Object whenAbandoned;

    private final Description description;

    private AttributeDefinition(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(Description.FIELDS + 6, "an attribute");
        description = Description.read(reader);
        name = description.name;
        type = description.type;
        notifies = reader.readBoolean();
        always = reader.readBoolean();
        readable = reader.readBoolean();
        writable = reader.readBoolean();
        whenAbandoned = reader.skipNil() ? null : type.read(reader);
        varies = reader.readBoolean();
    }

    static AttributeDefinition read(MessageReader reader) throws MalformedException, CommandException {
        return new AttributeDefinition(reader);
    }

    /** What clients are shown of it who may do that. */
    OpenMBeanAttributeInfo toInfo(boolean isReadable, boolean isWritable) {
        try {
            return info(description.allFields(), isReadable, isWritable);
        } catch (IllegalArgumentException error) {
            // Java refuses some descriptors, and the attribute must be shown all the same: without range and
            // legal values it is always taken.
            return info(description.fields(), isReadable, isWritable);
        }
    }

    private OpenMBeanAttributeInfo info(Map<String, ?> fields, boolean isReadable, boolean isWritable) {
        return new OpenMBeanAttributeInfoSupport(
            name, description.text(), type.openType, isReadable, isWritable, false, new ImmutableDescriptor(fields));
    }
}
