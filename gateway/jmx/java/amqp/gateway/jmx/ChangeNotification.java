package amqp.gateway.jmx;

import java.util.Objects;
import javax.management.AttributeChangeNotification;
import javax.management.Notification;

/** A change of an attribute. */
final class ChangeNotification extends AttributeChangeNotification implements OwnNotification {
    private static final long serialVersionUID = 1L;

    private final transient EmittingObject object;
    private final transient int position;
    private final transient Object before;
    private final transient Object after;

    ChangeNotification(EmittingObject object, int position, long sequence, Object before, Object after) {
        super(object.name, sequence, System.currentTimeMillis(), object.definition.attribute(position).name
            + " has changed", object.definition.attribute(position).name,
            object.definition.attribute(position).type.openType.getClassName(), null, null);
        this.object = object;
        this.position = position;
        this.before = before;
        this.after = after;
    }

    @Override
    public Notification shownTo(Viewer viewer) {
        Rights rights = object.rights(viewer.user);
        if (rights == null || !rights.reads(position)) {
            return null;
        }
        Object shownBefore = viewer.shown(before);
        Object shownAfter = viewer.shown(after);
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
