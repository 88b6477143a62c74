package amqp.gateway.jmx;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.AttributeChangeNotification;
import javax.management.ListenerNotFoundException;
import javax.management.MBeanNotificationInfo;
import javax.management.Notification;
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

    EmittingObject(long number, ObjectName name, ClassDefinition definition, Group group, Object[] values) {
        super(number, name, definition, group, values);
    }

    /** Sends an event to the listeners; {@code time} is in milliseconds. */
    void emit(String type, String message, long time, long sequence, Object data) {
        Notification notification = new Notification(type, name, sequence, time, message);
        notification.setUserData(data);
        broadcaster.sendNotification(notification);
    }

    @Override
    void replace(Group newGroup, Object[] newValues) {
        Object[] before = copyOfValues();
        super.replace(newGroup, newValues);
        for (int position : definition.notifying()) {
            // A notification must not reveal a value that a read does not show.
            if (shows(position) && !Objects.deepEquals(before[position], newValues[position])) {
                notifyChange(position, before[position], newValues[position]);
            }
        }
    }

    private void notifyChange(int position, Object before, Object after) {
        AttributeDefinition attribute = definition.attribute(position);
        broadcaster.sendNotification(new AttributeChangeNotification(
            name, CHANGES.incrementAndGet(), System.currentTimeMillis(), attribute.name + " has changed",
            attribute.name, attribute.type.openType.getClassName(), before, after));
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
