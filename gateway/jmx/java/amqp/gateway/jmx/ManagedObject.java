package amqp.gateway.jmx;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.ListenerNotFoundException;
import javax.management.MBeanInfo;
import javax.management.MBeanNotificationInfo;
import javax.management.NotificationBroadcasterSupport;
import javax.management.NotificationEmitter;
import javax.management.NotificationFilter;
import javax.management.NotificationListener;
import javax.management.ObjectName;
import javax.management.RuntimeOperationsException;

/**
 * An MBean: a name, and a class, rights and values that a batch replaces all at once.
 *
 * <p>A reader takes the {@link State} once and never waits: what it sees of one object belongs together. The class may
 * grow: the MBean and its listeners stay, and it reports that its description has changed.
 */
final class ManagedObject extends OwnMBean implements NotificationEmitter {
    /** Numbers the changes of attributes and descriptions, of all objects in one row. */
    private static final AtomicLong CHANGES = new AtomicLong();

    /** The attribute that has the identity of an object. */
    private static final String STABLE_NAME = "StableName";

    final long number;
    final ObjectName name;
    private final KeptNotifications kept;
    /** Listeners are called on the thread that carries a batch out; those of RMI only put into a buffer. */
    private final NotificationBroadcasterSupport broadcaster = new NotificationBroadcasterSupport();
    /** That of the state. Apart from the object, because notifications keep it longer than the values. */
    private final AtomicReference<Access> access;
    private volatile State state;
    /** In which clients read it with others; null where it is in none. Under the lock of batches. */
    private Table table;

    /** What an object is at one moment. The values are those of the class of the access, and do not change. */
    static final class State {
        final Access access;
        final Group group;
        final Object[] values;

        State(Access access, Group group, Object[] values) {
            this.access = access;
            this.group = group;
            this.values = values;
        }

        ClassDefinition definition() {
            return access.definition;
        }
    }

    ManagedObject(long number, ObjectName name, State state, KeptNotifications kept) {
        this.number = number;
        this.name = name;
        this.state = state;
        this.access = new AtomicReference<>(state.access);
        this.kept = kept;
    }

    State state() {
        return state;
    }

    Access access() {
        return state.access;
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

    /**
     * Takes another state, and notifies listeners of what has changed. Under the lock of batches.
     *
     * @param encoded octets of the command that it comes from
     */
    void replace(State after, int encoded) {
        State before = state;
        Table listed = before.access == after.access ? null : table;
        if (listed != null) {
            listed.remove(this);
        }
        state = after;
        access.set(after.access);
        if (listed != null) {
            listed.add(this);
        }
        if (before.definition() != after.definition()) {
            broadcaster.sendNotification(new InfoNotification(this, CHANGES.incrementAndGet(), before.access));
        }
        for (int position : after.definition().notifying()) {
            notifyOf(position, before, after, encoded);
        }
    }

    private void notifyOf(int position, State before, State after, int encoded) {
        AttributeDefinition attribute = after.definition().attribute(position);
        int former = before.definition() == after.definition() ? position : before.definition().positionOf(attribute);
        // An attribute that is new has not changed; a notification must not reveal a value that a read does not show.
        if (former < 0 || after.group.isWithheld() && !attribute.always
                || Objects.deepEquals(before.values[former], after.values[position])) {
            return;
        }
        ChangeNotification change = new ChangeNotification(
            this, attribute, CHANGES.incrementAndGet(), before.values[former], after.values[position]);
        // With the value before, which came with another command.
        kept.add(change, 2 * encoded);
        broadcaster.sendNotification(change);
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

    /** Sends an event to the listeners. */
    void emit(Event event) {
        broadcaster.sendNotification(new EventNotification(this, event));
    }

    /** What is to be seen of it now, which belongs together. */
    View view() {
        return new View(this, state);
    }

    /** What the object is called for ever; empty of an MBean that is no managed object. */
    String stableName() {
        State present = state;
        Integer position = present.definition().position(STABLE_NAME);
        return position == null ? "" : String.valueOf(present.values[position]);
    }

    @Override
    Object getAttribute(Viewer viewer, String attribute) throws AttributeNotFoundException {
        View view = view();
        Rights rights = view.rights(viewer.user);
        Integer position = rights == null ? null : rights.readablePosition(required(attribute));
        if (position == null) {
            throw new AttributeNotFoundException(name + " has no attribute " + attribute
                + (rights == null || !rights.hasAttribute(attribute) ? "" : " that can be read"));
        }
        return viewer.shown(view.value(position));
    }

    @Override
    AttributeList getAttributes(Viewer viewer, String[] attributes) {
        View view = view();
        Rights rights = view.rights(viewer.user);
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
    MBeanInfo getMBeanInfo(Viewer viewer) {
        Access present = access();
        Rights rights = present.of(viewer.user);
        return rights == null ? present.definition.unseen() : rights.info();
    }

    @Override
    public MBeanInfo getMBeanInfo() {
        return access().definition.unseen();
    }

    @Override
    public void addNotificationListener(
            NotificationListener listener, NotificationFilter filter, Object handback) {
        broadcaster.addNotificationListener(listener, filter, handback);
    }

    @Override
    public void removeNotificationListener(NotificationListener listener) throws ListenerNotFoundException {
        broadcaster.removeNotificationListener(listener);
    }

    @Override
    public void removeNotificationListener(
            NotificationListener listener, NotificationFilter filter, Object handback)
            throws ListenerNotFoundException {
        broadcaster.removeNotificationListener(listener, filter, handback);
    }

    @Override
    public MBeanNotificationInfo[] getNotificationInfo() {
        return access().definition.notifications();
    }

    private static <T> T required(T argument) {
        if (argument == null) {
            throw new RuntimeOperationsException(new IllegalArgumentException("null"));
        }
        return argument;
    }
}
