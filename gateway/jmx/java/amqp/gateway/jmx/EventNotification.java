package amqp.gateway.jmx;

import java.util.concurrent.atomic.AtomicReference;
import javax.management.Notification;
import javax.management.ObjectName;

/** What an MBean emits of an event or an operation. */
final class EventNotification extends Notification implements OwnNotification {
    private static final long serialVersionUID = 1L;

    /** In place of the emitter, whose values would be kept as long as this after its end. */
    private final transient AtomicReference<Access> access;
    private final transient Event event;

    EventNotification(ManagedObject emitter, Event event) {
        super(event.type, emitter.name, event.sequence, event.time, "");
        this.access = emitter.presentAccess();
        this.event = event;
    }

    @Override
    public Notification shownTo(Viewer viewer) throws ForgottenException {
        Event.Variant variant = access.get().exists(viewer.user) ? event.variant(viewer.user) : null;
        if (variant == null) {
            return null;
        }
        Notification shown =
            new Notification(event.type, (ObjectName) getSource(), event.sequence, event.time, variant.message);
        shown.setUserData(variant.data);
        return shown;
    }

    @Override
    public Object reported() {
        return event;
    }
}
