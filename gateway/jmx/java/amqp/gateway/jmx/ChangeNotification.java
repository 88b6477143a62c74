package amqp.gateway.jmx;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import javax.management.AttributeChangeNotification;
import javax.management.Notification;

/** A change of an attribute. */
final class ChangeNotification extends AttributeChangeNotification implements OwnNotification, KeptNotifications.Content {
    private static final long serialVersionUID = 1L;

    private final transient AtomicReference<Access> access;
    /** Before and after; null where they are forgotten. */
    private transient volatile Object[] values;

    ChangeNotification(
            ManagedObject object, AttributeDefinition attribute, long sequence, Object before, Object after) {
        super(object.name, sequence, System.currentTimeMillis(), attribute.name + " has changed", attribute.name,
            attribute.type.openType.getClassName(), null, null);
        this.access = object.presentAccess();
        this.values = new Object[] {before, after};
    }

    @Override
    public void forget() {
        values = null;
    }

    @Override
    public Notification shownTo(Viewer viewer) throws ForgottenException {
        Rights rights = access.get().of(viewer.user);
        if (rights == null || rights.readablePosition(getAttributeName()) == null) {
            return null;
        }
        Object[] kept = values;
        if (kept == null) {
            throw new ForgottenException();
        }
        Object shownBefore = viewer.shown(kept[0]);
        Object shownAfter = viewer.shown(kept[1]);
        if (Objects.deepEquals(shownBefore, shownAfter)) {
            return null;
        }
        return new AttributeChangeNotification(getSource(), getSequenceNumber(), getTimeStamp(), getMessage(),
            getAttributeName(), getAttributeType(), shownBefore, shownAfter);
    }

    @Override
    public Object reported() {
        return this;
    }
}
