package amqp.gateway.jmx;

import javax.management.Notification;

/** A notification of which not every user receives the same. It stays here: clients do not know its class. */
interface OwnNotification {
    /**
     * What a user receives; null for nothing. It is made for the user, who may change it.
     *
     * @throws ForgottenException the user would receive it, but it is not kept any more
     */
    Notification shownTo(Viewer viewer) throws ForgottenException;

    /** What is the same for notifications that report the same. */
    Object reported();
}
