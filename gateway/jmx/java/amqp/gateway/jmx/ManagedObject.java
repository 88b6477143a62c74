package amqp.gateway.jmx;

import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanInfo;
import javax.management.ObjectName;
import javax.management.ReflectionException;
import javax.management.RuntimeOperationsException;

/**
 * An MBean: a name, a class, and values that a batch replaces all at once.
 *
 * <p>A reader takes the array of values once and never waits: what it sees of one object belongs together.
 */
class ManagedObject implements DynamicMBean {
    /** The attribute that has the identity of an object. */
    private static final String STABLE_NAME = "StableName";

    final long number;
    final ObjectName name;
    final ClassDefinition definition;
    private volatile Group group;
    private volatile Object[] values;

    ManagedObject(long number, ObjectName name, ClassDefinition definition, Group group, Object[] values) {
        this.number = number;
        this.name = name;
        this.definition = definition;
        this.group = group;
        this.values = values;
    }

    static ManagedObject of(
            long number, ObjectName name, ClassDefinition definition, Group group, Object[] values) {
        return definition.emits()
            ? new EmittingObject(number, name, definition, group, values)
            : new ManagedObject(number, name, definition, group, values);
    }

    /** A copy of the values, to be changed and handed to {@link #replace}. */
    Object[] copyOfValues() {
        return values.clone();
    }

    /** Takes the values, an array that is not changed any more, and the group. */
    void replace(Group newGroup, Object[] newValues) {
        group = newGroup;
        values = newValues;
    }

    Group group() {
        return group;
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
    public final Object getAttribute(String attribute) throws AttributeNotFoundException {
        Integer position = definition.position(required(attribute));
        if (position == null || !isReadable(position)) {
            throw new AttributeNotFoundException(
                name + " has no attribute " + attribute + (position == null ? "" : " that can be read"));
        }
        return value(position, values);
    }

    @Override
    public final AttributeList getAttributes(String[] attributes) {
        // Once for all attributes, so that their values belong together.
        Object[] taken = values;
        AttributeList found = new AttributeList(required(attributes).length);
        for (String attribute : attributes) {
            Integer position = definition.position(attribute);
            if (position != null && isReadable(position)) {
                found.add(new Attribute(attribute, value(position, taken)));
            }
        }
        return found;
    }

    private boolean isReadable(int position) {
        return position == ClassDefinition.STALE_POSITION || definition.attribute(position).readable;
    }

    private Object value(int position, Object[] taken) {
        if (position == ClassDefinition.STALE_POSITION) {
            return group.isStale();
        }
        Object doubtful = definition.attribute(position).whenAbandoned;
        if (doubtful != null && group.isAbandoned()) {
            return doubtful;
        }
        return shows(position) ? taken[position] : null;
    }

    // Clients set and invoke by way of the Guard: what an MBean itself throws is wrapped on its way to them.

    @Override
    public final void setAttribute(Attribute attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException("only a client sets attributes");
    }

    @Override
    public final AttributeList setAttributes(AttributeList attributes) {
        return new AttributeList();
    }

    @Override
    public final Object invoke(String operation, Object[] parameters, String[] signature)
            throws ReflectionException {
        throw new ReflectionException(new NoSuchMethodException(operation), "only a client invokes operations");
    }

    @Override
    public final MBeanInfo getMBeanInfo() {
        return definition.info();
    }

    private static <T> T required(T argument) {
        if (argument == null) {
            throw new RuntimeOperationsException(new IllegalArgumentException("null"));
        }
        return argument;
    }
}
