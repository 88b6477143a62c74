package amqp.gateway.jmx;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.ObjectName;
import javax.management.remote.TargetedNotification;

/**
 * What a user sees: MBeans that the policy hides from the user do not exist, nor do attributes.
 *
 * <p>The virtual machine's own MBeans, which are of other domains, are the same for everybody.
 */
final class Viewer {
    /** So many notifications keep their numbers, if they are fetched again or by another listener. */
    private static final int NUMBERED = 256;
    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();

    /** The number that Python gave the user. */
    final int user;
    private final ManagedObjects objects;
    /** The sequence numbers of what was received last. */
    private final Map<Object, Long> numbers = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Object, Long> eldest) {
            return size() > NUMBERED;
        }
    };
    private long lastNumber;

    Viewer(int user, ManagedObjects objects) {
        this.user = user;
        this.objects = objects;
    }

    /** Whether only ours may have that name. */
    boolean isOurs(ObjectName name) {
        return name != null && name.getDomain().equals(objects.domain);
    }

    /** The MBean of ours of that name; null where there is none, or none for this user. */
    OwnMBean find(ObjectName name) {
        OwnMBean found = objects.mbean(name);
        return found != null && found.existsFor(user) ? found : null;
    }

    /** As {@link #find}, with what Java itself throws where there is none. */
    OwnMBean require(ObjectName name) throws InstanceNotFoundException {
        OwnMBean found = find(name);
        if (found == null) {
            throw new InstanceNotFoundException(name.toString());
        }
        return found;
    }

    /** Whether a name may be that of an MBean that exists; of others than ours Java knows. */
    boolean mayExist(ObjectName name) {
        return !isOurs(name) || find(name) != null;
    }

    /** Throws what Java does of an MBean that is missing, if it is one of ours that does not exist. */
    void requireExisting(ObjectName name) throws InstanceNotFoundException {
        if (isOurs(name)) {
            require(name);
        }
    }

    /** Those that exist. */
    <T> Set<T> existing(Set<T> found, Function<T, ObjectName> name) {
        return found.stream().filter(one -> mayExist(name.apply(one))).collect(Collectors.toSet());
    }

    /** How many of these MBeans exist. */
    int count(int all) {
        return all - objects.countHidden(user);
    }

    /** A value as this user sees it: a reference to an object that does not exist, nor ever did, is null. */
    Object shown(Object value) {
        Object own = value instanceof Varying ? ((Varying) value).of(user) : value;
        return own instanceof ObjectName && !objects.isShownTo(user, (ObjectName) own) ? null : own;
    }

    /** What a user receives of some notifications. */
    static final class Received {
        final TargetedNotification[] notifications;
        /** How many more would have been received, if they were still kept. */
        final int lost;

        Received(List<TargetedNotification> notifications, int lost) {
            this.notifications = notifications.toArray(new TargetedNotification[0]);
            this.lost = lost;
        }
    }

    /** What this user receives of these notifications. */
    Received received(TargetedNotification[] all) {
        List<TargetedNotification> received = new ArrayList<>(all.length);
        int lost = 0;
        for (TargetedNotification one : all) {
            try {
                Notification shown = received(one.getNotification());
                if (shown != null) {
                    received.add(new TargetedNotification(shown, one.getListenerID()));
                }
            } catch (ForgottenException error) {
                lost++;
            }
        }
        return new Received(received, lost);
    }

    private Notification received(Notification notification) throws ForgottenException {
        if (notification instanceof OwnNotification) {
            OwnNotification own = (OwnNotification) notification;
            return numbered(own.shownTo(this), own.reported());
        }
        if (notification instanceof MBeanServerNotification) {
            ObjectName name = ((MBeanServerNotification) notification).getMBeanName();
            return !isOurs(name) || objects.existedFor(user, name)
                ? numbered(copyOf((MBeanServerNotification) notification), notification) : null;
        }
        return notification;
    }

    /** Gaps of the numbers would say how much a restricted user does not receive: the session has its own. */
    private Notification numbered(Notification shown, Object reported) {
        if (shown != null && objects.isRestricted(user)) {
            synchronized (numbers) {
                shown.setSequenceNumber(numbers.computeIfAbsent(reported, key -> ++lastNumber));
            }
        }
        return shown;
    }

    private static Notification copyOf(MBeanServerNotification notification) {
        Notification copy = new MBeanServerNotification(notification.getType(), notification.getSource(),
            notification.getSequenceNumber(), notification.getMBeanName());
        copy.setTimeStamp(notification.getTimeStamp());
        return copy;
    }

    // What a query may ask.

    Object attribute(ObjectName name, String attribute) throws JMException {
        return isOurs(name) ? require(name).getAttribute(this, attribute) : SERVER.getAttribute(name, attribute);
    }

    /** The class that an MBean describes itself with. */
    String className(ObjectName name) throws InstanceNotFoundException {
        requireExisting(name);
        return SERVER.getObjectInstance(name).getClassName();
    }

    /** As Java has it, which for ours would ask a loader of classes, that keeps each name it was asked for. */
    boolean isInstanceOf(ObjectName name, String className) throws InstanceNotFoundException {
        if (!isOurs(name)) {
            return SERVER.isInstanceOf(name, className);
        }
        return isClassOf(require(name).getClass(), className) || className(name).equals(className);
    }

    private static boolean isClassOf(Class<?> type, String name) {
        return type != null && (type.getName().equals(name) || isClassOf(type.getSuperclass(), name)
            || Arrays.stream(type.getInterfaces()).anyMatch(one -> isClassOf(one, name)));
    }
}
