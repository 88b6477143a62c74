package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.ImmutableDescriptor;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.ObjectName;
import javax.management.ReflectionException;
import javax.management.openmbean.CompositeData;

/**
 * The objects of one class of a source, which a client reads many at a time, by the operation {@code read}.
 *
 * <p>Batches change it while they have its lock. A reader has the lock only while it collects what it will show: so no
 * page shows a batch by half.
 */
final class Table extends OwnMBean {
    /** The one operation, which changes nothing: {@link Session} and {@link Guard} let everybody call it. */
    static final String READ = "read";

    private static final String[] TEXTS = {String[].class.getName(), String.class.getName(), int.class.getName()};
    private static final String[] TEXT = {String.class.getName(), String.class.getName(), int.class.getName()};
    private static final MBeanInfo INFO = info();
    private static final MBeanInfo UNSEEN =
        new MBeanInfo(INFO.getClassName(), INFO.getDescription(), null, null, null, null);

    final long number;
    final ObjectName name;
    private final Object lock;
    private final String source;
    private final String className;
    private final NavigableMap<ObjectName, ManagedObject> objects =
        new TreeMap<>(Comparator.comparing(ObjectName::getCanonicalName));
    /** How many objects there are of each version of the class, and for whom. */
    private final Map<Access, Integer> versions = new LinkedHashMap<>();
    private Access latest;

    Table(long number, ObjectName name, String source, String className, Object lock) {
        this.number = number;
        this.name = name;
        this.source = source;
        this.className = className;
        this.lock = lock;
    }

    /** Whether an MBean of that name can be a table, for those who do not know the MBeans. */
    static boolean mayBe(ObjectName name) {
        return name != null && "Table".equals(name.getKeyProperty("type")) && name.getKeyProperty("package") == null;
    }

    void add(ManagedObject object) {
        if (objects.put(object.name, object) == null) {
            latest = object.access();
            versions.merge(latest, 1, Integer::sum);
        }
    }

    void remove(ManagedObject object) {
        if (objects.remove(object.name, object)) {
            versions.computeIfPresent(object.access(), (version, count) -> count == 1 ? null : count - 1);
        }
    }

    /**
     * Carries out {@link #READ}.
     *
     * @throws javax.management.RuntimeOperationsException a parameter is wrong; the text says which, and why
     * @throws ReflectionException there is no such operation
     */
    CompositeData invoke(Viewer viewer, String operation, Object[] parameters, List<String> signature)
            throws ReflectionException {
        if (!READ.equals(operation) || !isSignature(signature)) {
            String text = "unknown-element: " + name + " has no operation " + operation + " but " + READ
                + " with the signature " + Arrays.toString(TEXTS) + " or " + Arrays.toString(TEXT);
            throw new ReflectionException(new NoSuchMethodException(text), text);
        }
        PageRequest request = PageRequest.of(parameters);
        List<View> views = new ArrayList<>();
        Set<Rights> seen;
        boolean isLast = true;
        int total;
        synchronized (lock) {
            total = count(viewer.user);
            seen = rights(viewer.user);
            for (ManagedObject object : request.from == null
                    ? objects.values() : objects.tailMap(request.from, false).values()) {
                if (!object.existsFor(viewer.user)) {
                    continue;
                }
                if (views.size() == request.limit) {
                    isLast = false;
                    break;
                }
                views.add(object.view());
            }
        }
        return new Page(request.columns(seen, className)).of(viewer, views, isLast, total);
    }

    private static boolean isSignature(List<String> signature) {
        // RMI makes an empty signature of one that is left out; a class instead of int is what Jolokia and others send.
        return signature.isEmpty() || signature.size() == TEXTS.length
            && (TEXTS[0].equals(signature.get(0)) || TEXT[0].equals(signature.get(0)))
            && TEXTS[1].equals(signature.get(1))
            && (TEXTS[2].equals(signature.get(2)) || Integer.class.getName().equals(signature.get(2)));
    }

    /** The rights of a user to what there is, or was last. Under the lock. */
    private Set<Rights> rights(int user) {
        Set<Rights> rights = new LinkedHashSet<>();
        for (Access access : versions.isEmpty() && latest != null ? Set.of(latest) : versions.keySet()) {
            if (access.exists(user)) {
                rights.add(access.of(user));
            }
        }
        return rights;
    }

    private int count(int user) {
        int count = 0;
        for (Map.Entry<Access, Integer> version : versions.entrySet()) {
            count += version.getKey().exists(user) ? version.getValue() : 0;
        }
        return count;
    }

    /** To the objects that it had last; null where it never had any. */
    Access access() {
        return latest;
    }

    /** It exists with the objects that it has or had: those of a class that is hidden leave no trace. */
    @Override
    boolean existsFor(int user) {
        synchronized (lock) {
            return !rights(user).isEmpty();
        }
    }

    @Override
    Object getAttribute(Viewer viewer, String attribute) throws AttributeNotFoundException {
        switch (String.valueOf(attribute)) {
            case "Source":
                return source;
            case "Class":
                return className;
            case "Objects":
                synchronized (lock) {
                    return (long) count(viewer.user);
                }
            case "Attributes":
                synchronized (lock) {
                    return rights(viewer.user).stream().flatMap(rights -> rights.readable().stream()).distinct()
                        .toArray(String[]::new);
                }
            default:
                throw new AttributeNotFoundException(name + " has no attribute " + attribute);
        }
    }

    @Override
    AttributeList getAttributes(Viewer viewer, String[] attributes) {
        AttributeList found = new AttributeList();
        for (String attribute : attributes) {
            try {
                found.add(new Attribute(attribute, getAttribute(viewer, attribute)));
            } catch (AttributeNotFoundException error) {
                // As every MBean does, it leaves out what there is not.
            }
        }
        return found;
    }

    @Override
    MBeanInfo getMBeanInfo(Viewer viewer) {
        return INFO;
    }

    @Override
    public MBeanInfo getMBeanInfo() {
        return UNSEEN;
    }

    private static MBeanInfo info() {
        MBeanAttributeInfo[] attributes = {
            attribute("Source", String.class, "Name of the source in the configuration."),
            attribute("Class", String.class, "The class of the objects: package and name."),
            new MBeanAttributeInfo("Objects", Long.class.getName(), "Objects of the class.", true, false, false,
                new ImmutableDescriptor("metricType=gauge", "units=objects")),
            attribute("Attributes", String[].class, "The attributes of the objects that can be read."),
        };
        MBeanOperationInfo[] operations = {
            operation(TEXTS[0], "Names of attributes; none for all that can be read."),
            operation(TEXT[0], "Names of attributes, with commas between them; empty for all that can be read."),
        };
        return new MBeanInfo("amqp.gateway.Table", "All objects of one class of a source, read by pages.",
            attributes, null, operations, null, new ImmutableDescriptor("immutableInfo=true"));
    }

    private static MBeanAttributeInfo attribute(String name, Class<?> type, String description) {
        return new MBeanAttributeInfo(name, type.getName(), description, true, false, false);
    }

    private static MBeanOperationInfo operation(String type, String description) {
        MBeanParameterInfo[] parameters = {
            new MBeanParameterInfo("attributes", type, description),
            new MBeanParameterInfo("from", TEXTS[1],
                "What the page before returned as next, the name of its last object; empty for the first page."),
            new MBeanParameterInfo("limit", TEXTS[2], "Objects at most; 0 for as many as a page can have."),
        };
        return new MBeanOperationInfo(READ,
            "A page of objects in the order of their names: rows by ObjectName, from where the next page begins"
                + " (null behind the last), and how many objects there are.",
            parameters, CompositeData.class.getName(), MBeanOperationInfo.INFO);
    }
}
