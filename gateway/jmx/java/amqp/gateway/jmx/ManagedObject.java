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
    /** In which clients read it with others; null where it is in none. Under the lock of batches. */
    private Table table;

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

    /** Puts it into a table, and takes it out of the one in which it was; null for none. */
    void moveTo(Table newTable) {
        if (table != newTable) {
            if (table != null) {
                table.remove(this);
            }
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
    public final Object getAttribute(String attribute) throws AttributeNotFoundException {
        Integer position = definition.readablePosition(required(attribute));
        if (position == null) {
            throw new AttributeNotFoundException(name + " has no attribute " + attribute
                + (definition.position(attribute) == null ? "" : " that can be read"));
        }
        return view().value(position);
    }

    @Override
    public final AttributeList getAttributes(String[] attributes) {
        View view = view();
        AttributeList found = new AttributeList(required(attributes).length);
        for (String attribute : attributes) {
            Integer position = definition.readablePosition(attribute);
            if (position != null) {
                found.add(new Attribute(attribute, view.value(position)));
            }
        }
        return found;
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
