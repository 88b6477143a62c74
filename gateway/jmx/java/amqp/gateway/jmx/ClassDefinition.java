package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.AttributeChangeNotification;
import javax.management.Descriptor;
import javax.management.ImmutableDescriptor;
import javax.management.MBeanInfo;
import javax.management.MBeanNotificationInfo;
import javax.management.Notification;
import javax.management.openmbean.OpenMBeanAttributeInfo;
import javax.management.openmbean.OpenMBeanAttributeInfoSupport;
import javax.management.openmbean.OpenMBeanInfoSupport;
import javax.management.openmbean.OpenMBeanOperationInfo;
import javax.management.openmbean.SimpleType;

/** A class of objects: what all its MBeans share, above all one description for clients. */
final class ClassDefinition {
    /** The attribute that is made of an object's group. */
    static final String STALE = "Stale";

    /** The position of {@link #STALE}, which has no value of its own. */
    static final int STALE_POSITION = -1;

    private final byte[] source;
    private final AttributeDefinition[] attributes;
    private final Map<String, Integer> positions = new HashMap<>();
    private final Map<String, OperationDefinition> operations = new LinkedHashMap<>();
    private final int[] notifying;
    private final MBeanNotificationInfo[] notifications;
    private final String name;
    private final String description;
    private final MBeanInfo unseen;
    /** Of all users; users with the same rights share them, and with them one description of the MBeans. */
    private final List<Rights> rights = new ArrayList<>();
    private final Access forEverybody;

    private ClassDefinition(byte[] source, String name, String description,
            List<AttributeDefinition> attributes, List<MBeanNotificationInfo> notifications,
            List<OperationDefinition> operations, Errors errors) {
        this.source = source;
        this.attributes = attributes.toArray(new AttributeDefinition[0]);
        positions.put(STALE, STALE_POSITION);
        for (int position = 0; position < this.attributes.length; position++) {
            AttributeDefinition attribute = this.attributes[position];
            if (attribute.name.isBlank() || positions.putIfAbsent(attribute.name, position) != null) {
                errors.add("class " + name + ": no attribute or a second one has the name '"
                    + attribute.name + "', which is not shown");
            }
        }
        int number = 0;
        for (OperationDefinition operation : operations) {
            operation.number = number++;
            if (operation.name.isBlank() || this.operations.putIfAbsent(operation.name, operation) != null) {
                errors.add("class " + name + ": no operation or a second one has the name '"
                    + operation.name + "', which is not shown");
            }
        }
        this.notifying = positions.values().stream()
            .filter(position -> position != STALE_POSITION && this.attributes[position].notifies)
            .mapToInt(Integer::intValue).sorted().toArray();
        if (notifying.length > 0) {
            notifications.add(new MBeanNotificationInfo(
                new String[] {AttributeChangeNotification.ATTRIBUTE_CHANGE},
                AttributeChangeNotification.class.getName(), "An attribute flagged for it has changed"));
        }
        notifications.add(new MBeanNotificationInfo(
            new String[] {InfoNotification.TYPE}, Notification.class.getName(),
            "Attributes, operations or notifications have changed"));
        this.notifications = notifications.toArray(new MBeanNotificationInfo[0]);
        this.name = name.isBlank() ? "unnamed" : name;
        this.description = description.isBlank() ? name : description;
        this.unseen = new MBeanInfo(this.name, this.description, null, null, null, null);
        this.forEverybody = new Access(this);
    }

    /** The descriptions of the MBeans that clients receive by those rights. */
    MBeanInfo info(Rights rights) {
        List<OpenMBeanAttributeInfo> shown = new ArrayList<>();
        for (int position = 0; position < attributes.length; position++) {
            AttributeDefinition attribute = attributes[position];
            boolean isReadable = attribute.readable && rights.reads(position);
            boolean isWritable = attribute.writable && rights.writes(position);
            if (Integer.valueOf(position).equals(positions.get(attribute.name)) && (isReadable || isWritable)) {
                shown.add(attribute.toInfo(isReadable, isWritable));
            }
        }
        shown.add(new OpenMBeanAttributeInfoSupport(
            STALE, "Whether the values may be out of date.", SimpleType.BOOLEAN, true, false, false));
        // The class may grow, and the policy change: clients may keep it until they are notified.
        Descriptor descriptor = new ImmutableDescriptor("immutableInfo=false");
        return new OpenMBeanInfoSupport(
            name, description, shown.toArray(new OpenMBeanAttributeInfo[0]), null,
            operations.values().stream().filter(operation -> rights.invokes(operation.number))
                .map(OperationDefinition::toInfo).toArray(OpenMBeanOperationInfo[]::new),
            notifications, descriptor);
    }

    /** The description that the server of MBeans has, which no client sees: the name of the class. */
    MBeanInfo unseen() {
        return unseen;
    }

    /** All rights. */
    Rights whole() {
        return rights(null, null, null);
    }

    /** All rights, for everybody. */
    Access forEverybody() {
        return forEverybody;
    }

    /** The rights to so much of these objects; null for all of it. */
    Rights rights(BitSet reads, BitSet writes, BitSet operations) {
        for (Rights known : rights) {
            if (known.are(reads, writes, operations)) {
                return known;
            }
        }
        Rights made = new Rights(this, reads, writes, operations);
        rights.add(made);
        return made;
    }

    /** Reads what follows the number in the command that defines a class, which began at {@code start}. */
    static ClassDefinition read(MessageReader reader, int start, Errors errors)
            throws MalformedException, CommandException {
        String name = reader.readString();
        String description = reader.readString();
        List<AttributeDefinition> attributes = new ArrayList<>();
        for (int left = reader.readArray(); left > 0; left--) {
            attributes.add(AttributeDefinition.read(reader));
        }
        List<MBeanNotificationInfo> notifications = new ArrayList<>();
        for (int left = reader.readArray(); left > 0; left--) {
            reader.readArray(2, "a notification type");
            String[] types = {reader.readString()};
            notifications.add(new MBeanNotificationInfo(types, Notification.class.getName(), reader.readString()));
        }
        List<OperationDefinition> operations = new ArrayList<>();
        for (int left = reader.readArray(); left > 0; left--) {
            operations.add(OperationDefinition.read(reader));
        }
        return new ClassDefinition(
            reader.since(start), name, description, attributes, notifications, operations, errors);
    }

    /** Whether its definition has the same bytes as that of {@code other}. */
    boolean isSameAs(ClassDefinition other) {
        return other != null && Arrays.equals(source, other.source);
    }

    int size() {
        return attributes.length;
    }

    AttributeDefinition attribute(int position) {
        return attributes[position];
    }

    /** Where the attribute's value is; null where there is none of that name. */
    Integer position(String name) {
        return positions.get(name);
    }

    /** As {@link #position}, of an attribute that can be read. */
    Integer readablePosition(String name) {
        Integer position = positions.get(name);
        return position == null || position == STALE_POSITION || attributes[position].readable ? position : null;
    }

    /** Where the values of an attribute of another version of the class are; negative where it has none like that. */
    int positionOf(AttributeDefinition attribute) {
        Integer position = positions.get(attribute.name);
        return position == null || position < 0 || attributes[position].type != attribute.type ? -1 : position;
    }

    /** The names of the attributes that can be read and have values of their own, in their order. */
    List<String> readable() {
        List<String> names = new ArrayList<>();
        for (int position = 0; position < attributes.length; position++) {
            // A second attribute of a name is not shown.
            if (attributes[position].readable && positions.get(attributes[position].name) == position) {
                names.add(attributes[position].name);
            }
        }
        return names;
    }

    /** Whether clients may try to set the attribute. */
    boolean isWritable(String name) {
        Integer position = positions.get(name);
        return position != null && position != STALE_POSITION && attributes[position].writable;
    }

    /** The class of the values of an attribute that there is. */
    String typeOf(String name) {
        return attributes[positions.get(name)].type.openType.getClassName();
    }

    /** The operation of that name; null where there is none. */
    OperationDefinition operation(String name) {
        return operations.get(name);
    }

    /** The positions of the attributes whose changes are notified. */
    int[] notifying() {
        return notifying;
    }

    MBeanNotificationInfo[] notifications() {
        return notifications.clone();
    }
}
