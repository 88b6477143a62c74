package amqp.gateway.jmx;

import javax.management.Notification;
import javax.management.ObjectName;

/** What an MBean emits of an event or an operation. */
final class EventNotification extends Notification implements OwnNotification {
    private static final long serialVersionUID = 1L;

    private final transient EmittingObject emitter;
    private final transient Event event;

    EventNotification(EmittingObject emitter, Event event) {
        super(event.type, emitter.name, event.sequence, event.time, "");
        this.emitter = emitter;
        this.event = event;
    }

    @Override
    public Notification shownTo(Viewer viewer) {
        Event.Variant variant = emitter.existsFor(viewer.user) ? event.variant(viewer.user) : null;
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
