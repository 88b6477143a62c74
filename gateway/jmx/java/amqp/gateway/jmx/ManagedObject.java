package amqp.gateway.jmx;

import java.util.concurrent.atomic.AtomicReference;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.MBeanInfo;
import javax.management.ObjectName;
import javax.management.RuntimeOperationsException;

/**
 * An MBean: a name, a class, and values that a batch replaces all at once.
 *
 * <p>A reader takes the array of values once and never waits: what it sees of one object belongs together.
 */
class ManagedObject extends OwnMBean {
    /** The attribute that has the identity of an object. */
    private static final String STABLE_NAME = "StableName";

    final long number;
    final ObjectName name;
    final ClassDefinition definition;
    /** Apart from the object, because notifications keep it longer than the values. */
    private final AtomicReference<Access> access;
    private volatile Group group;
    private volatile Object[] values;
    /** In which clients read it with others; null where it is in none. Under the lock of batches. */
    private Table table;

    ManagedObject(long number, ObjectName name, Access access, Group group, Object[] values) {
        this.number = number;
        this.name = name;
        this.definition = access.definition;
        this.access = new AtomicReference<>(access);
        this.group = group;
        this.values = values;
    }

    static ManagedObject of(
            long number, ObjectName name, Access access, Group group, Object[] values, KeptNotifications kept) {
        return access.definition.emits()
            ? new EmittingObject(number, name, access, group, values, kept)
            : new ManagedObject(number, name, access, group, values);
    }

    Access access() {
        return access.get();
    }

    /** The access now, and any later one. */
    AtomicReference<Access> presentAccess() {
        return access;
    }

    /** The rights of a user; null where it does not exist for that user. */
    Rights rights(int user) {
        return access().of(user);
    }

    @Override
    boolean existsFor(int user) {
        return access().exists(user);
    }

    /** A copy of the values, to be changed and handed to {@link #replace}. */
    Object[] copyOfValues() {
        return values.clone();
    }

    /**
     * Takes the values, an array that is not changed any more, and the group.
     *
     * @param encoded octets of the command that they come from
     */
    void replace(Group newGroup, Object[] newValues, int encoded) {
        group = newGroup;
        values = newValues;
    }

    Group group() {
        return group;
    }

    /** Puts it into a table, and takes it out of the one in which it was; null for none. */
    void moveTo(Table newTable, Access newAccess) {
        if (table != newTable || access() != newAccess) {
            if (table != null) {
                table.remove(this);
            }
            access.set(newAccess);
            table = newTable;
            if (table != null) {
                table.add(this);
            }
        }
    }

    /** What is to be seen of it now, which belongs together. */
    View view() {
        return new View(this, values, group);
    }

    /** What the object is called for ever; empty of an MBean that is no managed object. */
    String stableName() {
        Integer position = definition.position(STABLE_NAME);
        return position == null ? "" : String.valueOf(values[position]);
    }

    /** Whether the attribute's value may be shown now. */
    boolean shows(int position) {
        return !group.isWithheld() || definition.attribute(position).always;
    }

    @Override
    final Object getAttribute(Viewer viewer, String attribute) throws AttributeNotFoundException {
        Rights rights = rights(viewer.user);
        Integer position = rights == null ? null : rights.readablePosition(required(attribute));
        if (position == null) {
            throw new AttributeNotFoundException(name + " has no attribute " + attribute
                + (rights == null || !rights.hasAttribute(attribute) ? "" : " that can be read"));
        }
        return viewer.shown(view().value(position));
    }

    @Override
    final AttributeList getAttributes(Viewer viewer, String[] attributes) {
        View view = view();
        Rights rights = rights(viewer.user);
        AttributeList found = new AttributeList(required(attributes).length);
        for (String attribute : attributes) {
            Integer position = rights == null ? null : rights.readablePosition(attribute);
            if (position != null) {
                found.add(new Attribute(attribute, viewer.shown(view.value(position))));
            }
        }
        return found;
    }

    @Override
    final MBeanInfo getMBeanInfo(Viewer viewer) {
        Rights rights = rights(viewer.user);
        return rights == null ? definition.unseen() : rights.info();
    }

    @Override
    public final MBeanInfo getMBeanInfo() {
        return definition.unseen();
    }

    private static <T> T required(T argument) {
        if (argument == null) {
            throw new RuntimeOperationsException(new IllegalArgumentException("null"));
        }
        return argument;
    }
}
