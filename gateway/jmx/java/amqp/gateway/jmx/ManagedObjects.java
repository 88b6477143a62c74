package amqp.gateway.jmx;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** The objects by their numbers, and as MBeans in the server. One thread at a time changes them. */
final class ManagedObjects {
    /** The number of all rights of all users, to any class. */
    static final long EVERYBODY = -1;

    private static final Access NO_ACCESS = new Access(null, new Rights[0]);

    private final MBeanServer server;
    final String domain;
    private final int remembered;
    private final SignsOfLife python;
    final KeptNotifications kept = new KeptNotifications();
    private final Map<Long, ClassDefinition> classes = new HashMap<>();
    private final Map<Long, Access> accesses = new HashMap<>();
    private final Map<Long, Group> groups = new HashMap<>();
    private final Map<Long, ManagedObject> objects = new HashMap<>();
    // Threads of clients look here; the other maps belong to the thread that carries out batches.
    private final Map<ObjectName, ManagedObject> named = new ConcurrentHashMap<>();
    private final Map<Long, Table> tables = new HashMap<>();
    private final Map<ObjectName, Table> namedTables = new ConcurrentHashMap<>();
    /** For whom MBeans existed that are gone, by which their notifications are decided; the last ones. */
    private final Map<ObjectName, Access> gone = new LinkedHashMap<>();
    private volatile Policy policy = new Policy();
    /** By user; empty before the policy is known. */
    private volatile boolean[] unrestrictedUsers = {};
    /** By user; empty before the policy is known. */
    private volatile boolean[] changing = {};
    /** Whoever has it sees batches as a whole. */
    final Object lock = new Object();

    /**
     * Objects are MBeans of {@code server}, and only of the domain; stale while {@code python} is missing.
     *
     * @param remembered how many MBeans that are gone are remembered: as many as notifications are kept
     */
    ManagedObjects(MBeanServer server, String domain, SignsOfLife python, int remembered) {
        this.server = server;
        this.domain = domain;
        this.python = python;
        this.remembered = remembered;
    }

    /** Defines a class. The same definition again changes nothing, so that its MBeans stay. */
    void define(long number, ClassDefinition definition) {
        if (!definition.isSameAs(classes.get(number))) {
            ClassDefinition former = classes.put(number, definition);
            accesses.values().removeIf(access -> access.definition == former);
        }
    }

    /** Defines the rights to objects of a class. */
    void define(long number, Access access) {
        accesses.put(number, access);
    }

    /**
     * The access of that number to a class.
     *
     * @param number {@link #EVERYBODY} for all rights of all users
     */
    Access access(long number, ClassDefinition definition) throws CommandException {
        Access access = number == EVERYBODY ? definition.forEverybody() : accesses.get(number);
        if (access == null || access.definition != definition) {
            throw new CommandException("there is no access " + number + " to this class");
        }
        return access;
    }

    /** Whether any rule lets a user change anything; before the policy is known, what was said at the login. */
    boolean mayChange(int user, boolean atLogin) {
        boolean[] known = changing;
        return known.length == 0 ? atLogin : user < known.length && known[user];
    }

    /** Whether there is anything that a user may not read; before the policy is known no user receives anything. */
    boolean isRestricted(int user) {
        boolean[] known = unrestrictedUsers;
        return known.length > 0 && (user < 0 || user >= known.length || !known[user]);
    }

    /** The policy by which events are received now. */
    Policy policy() {
        return policy;
    }

    /** Another policy: a restricted user sees no object until that is registered again. */
    void changePolicy(boolean[] unrestricted, boolean[] mayChange) {
        changing = mayChange;
        unrestrictedUsers = unrestricted.clone();
        policy.end(unrestricted);
        policy = new Policy();
        accesses.values().forEach(access -> access.revoke(unrestricted));
        synchronized (gone) {
            gone.values().forEach(access -> access.revoke(unrestricted));
        }
        accesses.clear();
    }

    ClassDefinition definition(long number) throws CommandException {
        ClassDefinition definition = classes.get(number);
        if (definition == null) {
            throw new CommandException("there is no class " + number);
        }
        return definition;
    }

    Group group(long number) {
        return groups.computeIfAbsent(number, key -> new Group(python));
    }

    /** The object of that number; null where there is none. */
    ManagedObject find(long number) {
        return objects.get(number);
    }

    /** The object of that name; null where there is none. Any thread may ask. */
    ManagedObject find(ObjectName name) {
        return named.get(name);
    }

    /** The MBean of ours of that name; null where there is none. Any thread may ask. */
    OwnMBean mbean(ObjectName name) {
        if (name == null) {
            return null;
        }
        OwnMBean object = named.get(name);
        return object == null ? namedTables.get(name) : object;
    }

    /** How many MBeans of ours do not exist for a user. Any thread may ask. */
    int countHidden(int user) {
        int hidden = 0;
        for (OwnMBean object : named.values()) {
            hidden += object.existsFor(user) ? 0 : 1;
        }
        for (OwnMBean table : namedTables.values()) {
            hidden += table.existsFor(user) ? 0 : 1;
        }
        return hidden;
    }

    /** Whether all MBeans of that name, present or gone, exist or existed for a user. Any thread may ask. */
    boolean existedFor(int user, ObjectName name) {
        OwnMBean present = mbean(name);
        Access former;
        synchronized (gone) {
            former = gone.get(name);
        }
        return (present != null || former != null) && (present == null || present.existsFor(user))
            && (former == null || former.exists(user));
    }

    /**
     * Whether a user is shown a reference to that name: if there is an MBean, as that exists for the user, or else as
     * the one did that is gone. Any thread may ask.
     */
    boolean isShownTo(int user, ObjectName name) {
        OwnMBean present = mbean(name);
        if (present != null) {
            return present.existsFor(user);
        }
        synchronized (gone) {
            Access former = gone.get(name);
            return former != null && former.exists(user);
        }
    }

    private void remember(ObjectName name, Access access) {
        synchronized (gone) {
            Access former = gone.remove(name);
            boolean isSame = former == null || former == access;
            gone.put(name, isSame && access != null ? access : NO_ACCESS);
            if (gone.size() > remembered) {
                gone.remove(gone.keySet().iterator().next());
            }
        }
    }

    /** The table of that name; null where there is none. Any thread may ask. */
    Table table(ObjectName name) {
        return name == null ? null : namedTables.get(name);
    }

    /** Registers a table without objects. Its number is none that an object has. */
    void registerTable(long number, ObjectName name, String source, String className) throws CommandException {
        requireOurs(name);
        unregister(number);
        Table table = new Table(number, name, source, className, lock);
        register(table, name);
        tables.put(number, table);
        namedTables.put(name, table);
    }

    /**
     * Registers an object.
     *
     * @param table the number of its table, or 0
     * @param encoded octets of the command that the values come from
     */
    void register(long number, ObjectName name, ManagedObject.State state, long table, int encoded)
            throws CommandException {
        requireOurs(name);
        ManagedObject present = objects.get(number);
        // Registering again would take the listeners of clients away.
        if (present != null && present.name.equals(name)) {
            present.replace(state, encoded);
            present.moveTo(tables.get(table));
            return;
        }
        unregister(number);
        // An object that ended and was created again has another number and, if it is durable, the same name;
        // its end may follow.
        ManagedObject other = named.get(name);
        if (other != null) {
            unregister(other.number);
        }
        ManagedObject object = new ManagedObject(number, name, state, kept);
        // Before the server has it: a client that receives its registration finds it.
        objects.put(number, object);
        named.put(name, object);
        try {
            register(object, name);
        } catch (CommandException error) {
            objects.remove(number);
            named.remove(name);
            throw error;
        }
        object.moveTo(tables.get(table));
    }

    private void requireOurs(ObjectName name) throws CommandException {
        if (name.isPattern() || !name.getDomain().equals(domain)) {
            throw new CommandException("'" + name + "' is no name of one object in the domain " + domain);
        }
    }

    private void register(Object object, ObjectName name) throws CommandException {
        try {
            server.registerMBean(object, name);
        } catch (InstanceAlreadyExistsException error) {
            throw new CommandException("the virtual machine itself has an MBean " + name);
        } catch (JMException error) {
            throw new CommandException(name + " cannot be registered: " + error);
        }
    }

    void unregister(long number) throws CommandException {
        Table table = tables.remove(number);
        if (table != null) {
            remember(table.name, table.access());
            namedTables.remove(table.name);
            unregister(table.name);
        }
        ManagedObject object = objects.remove(number);
        if (object != null) {
            remember(object.name, object.access());
            object.moveTo(null);
            named.remove(object.name);
            unregister(object.name);
        }
    }

    private void unregister(ObjectName name) throws CommandException {
        try {
            server.unregisterMBean(name);
        } catch (InstanceNotFoundException error) {
            // It is gone, which is what was asked for.
        } catch (JMException error) {
            throw new CommandException(name + " cannot be unregistered: " + error);
        }
    }
}
