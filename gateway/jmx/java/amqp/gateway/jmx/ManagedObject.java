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
    final ObjectName name;
    final ClassDefinition definition;
    private volatile Group group;
    private volatile Object[] values;

    ManagedObject(ObjectName name, ClassDefinition definition, Group group, Object[] values) {
        this.name = name;
        this.definition = definition;
        this.group = group;
        this.values = values;
    }

    static ManagedObject of(ObjectName name, ClassDefinition definition, Group group, Object[] values) {
        return definition.emits()
            ? new EmittingObject(name, definition, group, values)
            : new ManagedObject(name, definition, group, values);
    }

    /** A copy of the values, to be changed and handed to {@link #replace}. */
    Object[] copyOfValues() {
        return values.clone();
    }

    /** Takes the values, which nobody changes any more, and the group. */
    void replace(Group newGroup, Object[] newValues) {
        group = newGroup;
        values = newValues;
    }

    Group group() {
        return group;
    }

    /** Whether the attribute's value may be shown now. */
    boolean shows(int position) {
        return !group.isWithheld() || definition.attribute(position).always;
    }

    @Override
    public final Object getAttribute(String attribute) throws AttributeNotFoundException {
        Integer position = definition.position(required(attribute));
        if (position == null) {
            throw new AttributeNotFoundException(name + " has no attribute " + attribute);
        }
        return value(position, values);
    }

    @Override
    public final AttributeList getAttributes(String[] attributes) {
        Object[] taken = values;
        AttributeList found = new AttributeList(required(attributes).length);
        for (String attribute : attributes) {
            Integer position = definition.position(attribute);
            if (position != null) {
                found.add(new Attribute(attribute, value(position, taken)));
            }
        }
        return found;
    }

    private Object value(int position, Object[] taken) {
        if (position == ClassDefinition.STALE_POSITION) {
            return group.isStale();
        }
        return shows(position) ? taken[position] : null;
    }

    @Override
    public final void setAttribute(Attribute attribute) throws AttributeNotFoundException {
        throw new AttributeNotFoundException(
            required(attribute).getName() + " of " + name + " cannot be set: there is no such attribute, "
                + "or it is read-only");
    }

    @Override
    public final AttributeList setAttributes(AttributeList attributes) {
        required(attributes);
        return new AttributeList();  // as the interface has it: those that were set, which are none
    }

    @Override
    public final Object invoke(String operation, Object[] parameters, String[] signature)
            throws ReflectionException {
        throw new ReflectionException(
            new NoSuchMethodException(required(operation)), name + " has no operation " + operation);
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
