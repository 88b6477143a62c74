package amqp.gateway.jmx;

import javax.management.Notification;

/** A notification of which not every user receives the same. It stays here: clients do not know its class. */
interface OwnNotification {
    /** What a user receives; null for nothing. */
    Notification shownTo(Viewer viewer);
}
