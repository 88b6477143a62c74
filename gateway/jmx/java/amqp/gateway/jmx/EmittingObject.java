package amqp.gateway.jmx;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.ListenerNotFoundException;
import javax.management.MBeanNotificationInfo;
import javax.management.NotificationBroadcasterSupport;
import javax.management.NotificationEmitter;
import javax.management.NotificationFilter;
import javax.management.NotificationListener;
import javax.management.ObjectName;

/** An MBean of a class that has events, or attributes whose changes are notified. */
final class EmittingObject extends ManagedObject implements NotificationEmitter {
    /** Numbers the changes of attributes, of all objects in one row. */
    private static final AtomicLong CHANGES = new AtomicLong();

    /** Listeners are called on the thread that carries a batch out; those of RMI only put into a buffer. */
    private final NotificationBroadcasterSupport broadcaster = new NotificationBroadcasterSupport();

    private final KeptNotifications kept;

    EmittingObject(
            long number, ObjectName name, Access access, Group group, Object[] values, KeptNotifications kept) {
        super(number, name, access, group, values);
        this.kept = kept;
    }

    /** Sends an event to the listeners. */
    void emit(Event event) {
        broadcaster.sendNotification(new EventNotification(this, event));
    }

    @Override
    void replace(Group newGroup, Object[] newValues, int encoded) {
        Object[] before = copyOfValues();
        super.replace(newGroup, newValues, encoded);
        for (int position : definition.notifying()) {
            // A notification must not reveal a value that a read does not show.
            if (shows(position) && !Objects.deepEquals(before[position], newValues[position])) {
                ChangeNotification change = new ChangeNotification(
                    this, position, CHANGES.incrementAndGet(), before[position], newValues[position]);
                // With the value before, which came with another command.
                kept.add(change, 2 * encoded);
                broadcaster.sendNotification(change);
            }
        }
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
        return definition.notifications();
    }
}
