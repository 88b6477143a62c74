package amqp.gateway.jmx;

import java.util.concurrent.atomic.AtomicReference;
import javax.management.Notification;
import javax.management.ObjectName;

/** A change of an MBean's description, because its class has other attributes, operations or notifications. */
final class InfoNotification extends Notification implements OwnNotification {
    /** As the documentation of {@link javax.management.MBeanInfo} recommends; its user data is the description. */
    static final String TYPE = "jmx.mbean.info.changed";

    private static final long serialVersionUID = 1L;

    private final transient Access former;
    private final transient AtomicReference<Access> access;

    InfoNotification(ManagedObject object, long sequence, Access former) {
        super(TYPE, object.name, sequence, System.currentTimeMillis(), "the description of the MBean has changed");
        this.former = former;
        this.access = object.presentAccess();
    }

    @Override
    public Notification shownTo(Viewer viewer) {
        Rights before = former.of(viewer.user);
        Rights after = access.get().of(viewer.user);
        // For a user from whom all of the change is hidden there is none.
        if (after == null || before != null && before.info().equals(after.info())) {
            return null;
        }
        Notification shown = new Notification(
            TYPE, (ObjectName) getSource(), getSequenceNumber(), getTimeStamp(), getMessage());
        shown.setUserData(after.info());
        return shown;
    }

    @Override
    public Object reported() {
        return this;
    }
}
