package amqp.gateway.jmx;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** The objects by their numbers, and as MBeans in the server. One thread at a time changes them. */
final class ManagedObjects {
    private final MBeanServer server;
    private final String domain;
    private final SignsOfLife python;
    private final Map<Long, ClassDefinition> classes = new HashMap<>();
    private final Map<Long, Group> groups = new HashMap<>();
    private final Map<Long, ManagedObject> objects = new HashMap<>();
    // Threads of clients look here; the other maps belong to the thread that carries out batches.
    private final Map<ObjectName, ManagedObject> named = new ConcurrentHashMap<>();
    private final Map<Long, Table> tables = new HashMap<>();
    private final Map<ObjectName, Table> namedTables = new ConcurrentHashMap<>();
    /** Whoever has it sees batches as a whole. */
    final Object lock = new Object();

    /** Objects are MBeans of {@code server}, and only of the domain; stale while {@code python} is missing. */
    ManagedObjects(MBeanServer server, String domain, SignsOfLife python) {
        this.server = server;
        this.domain = domain;
        this.python = python;
    }

    /** Defines a class. The same definition again changes nothing, so that its MBeans stay. */
    void define(long number, ClassDefinition definition) {
        if (!definition.isSameAs(classes.get(number))) {
            classes.put(number, definition);
        }
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

    /** Registers an object; {@code table} is the number of its table, or 0. */
    void register(long number, ObjectName name, ClassDefinition definition, Group group, long table, Object[] values)
            throws CommandException {
        requireOurs(name);
        ManagedObject present = objects.get(number);
        // Registering again would take the listeners of clients away.
        if (present != null && present.name.equals(name) && present.definition == definition) {
            present.replace(group, values);
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
        ManagedObject object = ManagedObject.of(number, name, definition, group, values);
        register(object, name);
        objects.put(number, object);
        named.put(name, object);
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
            namedTables.remove(table.name);
            unregister(table.name);
        }
        ManagedObject object = objects.remove(number);
        if (object != null) {
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
