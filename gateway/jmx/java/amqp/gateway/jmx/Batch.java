package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;

/**
 * Carries out a batch of commands, encoded as {@code gateway/jmx/commands.py} defines, in their order.
 *
 * <p>What is wrong with a command is an error of that command; of a value, of that value, which is absent
 * then. Neither stops what follows. Only behind octets that are not MessagePack nothing can be read.
 */
final class Batch {
    private final MessageReader reader;
    private final ManagedObjects objects;
    private final EventTypes eventTypes;
    private final Errors errors = new Errors();

    Batch(byte[] octets, ManagedObjects objects, EventTypes eventTypes) {
        this.reader = new MessageReader(octets);
        this.objects = objects;
        this.eventTypes = eventTypes;
    }

    Errors carryOut() {
        try {
            int commands = reader.readArray();
            for (int command = 0; command < commands; command++) {
                int start = reader.position();
                try {
                    command(start);
                } catch (CommandException | RuntimeException error) {
                    errors.add("command " + command + ": " + describe(error));
                    // A part of the command may have been read: the next one begins behind the whole of it.
                    reader.skipFrom(start);
                }
            }
            if (!reader.atEnd()) {
                throw new MalformedException(reader.position(), "more octets behind the last command");
            }
        } catch (CommandException | MalformedException error) {
            errors.add("batch: " + error.getMessage());
        }
        return errors;
    }

    private static String describe(Exception error) {
        return error instanceof CommandException ? error.getMessage() : error.toString();
    }

    private void command(int start) throws MalformedException, CommandException {
        int fields = reader.readArray();
        int operation = reader.readInt(1, 9);
        switch (operation) {
            case 1:
                expect(fields, 7);
                objects.define(reader.readLong(), ClassDefinition.read(reader, start, errors));
                break;
            case 2:
                expect(fields, 3);
                objects.group(reader.readLong()).set(reader.readInt(1, Group.Freshness.values().length));
                break;
            case 3:
                expect(fields, 8);
                register(start);
                break;
            case 4:
                expect(fields, 4);
                change(start);
                break;
            case 5:
                expect(fields, 2);
                objects.unregister(reader.readLong());
                break;
            case 6:
                expect(fields, 9);
                emit(start);
                break;
            case 8:
                expect(fields, 5);
                defineAccess();
                break;
            case 9:
                expect(fields, 3);
                objects.changePolicy(readBooleans(), readBooleans());
                break;
            default:
                expect(fields, 5);
                objects.registerTable(reader.readLong(), AttributeType.objectName(reader.readString()),
                    reader.readString(), reader.readString());
                break;
        }
    }

    private static void expect(int fields, int expected) throws CommandException {
        if (fields != expected) {
            throw new CommandException("has " + expected + " fields, not " + fields);
        }
    }

    private void register(int start) throws MalformedException, CommandException {
        long number = reader.readLong();
        ClassDefinition definition = objects.definition(reader.readLong());
        Group group = objects.group(reader.readLong());
        ObjectName name = AttributeType.objectName(reader.readString());
        reader.readArray(definition.size(), "the array of values");
        Object[] values = new Object[definition.size()];
        for (int position = 0; position < values.length; position++) {
            AttributeDefinition attribute = definition.attribute(position);
            values[position] = value(name, attribute);
        }
        long table = reader.readLong();
        Access access = objects.access(reader.readLong(), definition);
        ManagedObject.State state = new ManagedObject.State(access, group, values);
        objects.register(number, name, state, table, reader.position() - start);
    }

    private void change(int start) throws MalformedException, CommandException {
        long number = reader.readLong();
        ManagedObject object = objects.find(number);
        if (object == null) {
            throw new CommandException("there is no object " + number);
        }
        // A copy: readers may hold the present array, which must not change under them.
        ManagedObject.State before = object.state();
        Object[] values = before.values.clone();
        int[] positions = new int[reader.readArray()];
        for (int place = 0; place < positions.length; place++) {
            positions[place] = reader.readInt(0, values.length - 1);
        }
        reader.readArray(positions.length, "the array of values");
        for (int position : positions) {
            AttributeDefinition attribute = before.definition().attribute(position);
            values[position] = value(object.name, attribute);
        }
        object.replace(new ManagedObject.State(before.access, before.group, values), reader.position() - start);
    }

    private void defineAccess() throws MalformedException, CommandException {
        long number = reader.readLong();
        ClassDefinition definition = objects.definition(reader.readLong());
        Rights[] distinct = new Rights[reader.readArray()];
        for (int place = 0; place < distinct.length; place++) {
            reader.readArray(3, "rights");
            distinct[place] = definition.rights(readBits(), readBits(), readBits());
        }
        Rights[] rights = new Rights[reader.readArray()];
        for (int user = 0; user < rights.length; user++) {
            int choice = reader.readInt(-1, distinct.length - 1);
            rights[user] = choice < 0 ? null : distinct[choice];
        }
        objects.define(number, new Access(definition, rights));
    }

    /** A set of positions; null for all. */
    private BitSet readBits() throws MalformedException, CommandException {
        return reader.skipNil() ? null : BitSet.valueOf(reader.readBytes());
    }

    private boolean[] readBooleans() throws MalformedException, CommandException {
        boolean[] values = new boolean[reader.readArray()];
        for (int place = 0; place < values.length; place++) {
            values[place] = reader.readBoolean();
        }
        return values;
    }

    private int[] readChoices(int choices) throws MalformedException, CommandException {
        int[] chosen = new int[reader.readArray()];
        for (int user = 0; user < chosen.length; user++) {
            chosen[user] = reader.readInt(-1, choices - 1);
        }
        return chosen;
    }

    private Object value(ObjectName owner, AttributeDefinition attribute) throws MalformedException, CommandException {
        if (!attribute.varies) {
            return value(owner, attribute.name, attribute.type);
        }
        if (reader.skipNil()) {
            return null;
        }
        reader.readArray(2, "a value that varies");
        Object[] values = new Object[reader.readArray()];
        for (int place = 0; place < values.length; place++) {
            values[place] = value(owner, attribute.name, attribute.type);
        }
        int[] choices = readChoices(values.length);
        return choices.length == 0 && values.length > 0 ? values[0] : new Varying(values, choices);
    }

    private Object value(Object owner, String name, AttributeType type) throws MalformedException {
        int start = reader.position();
        try {
            return reader.skipNil() ? null : type.read(reader);
        } catch (CommandException error) {
            errors.add(owner + " " + name + " is absent: " + error.getMessage());
            reader.skipFrom(start);
            return null;
        }
    }

    private void emit(int start) throws MalformedException, CommandException {
        long[] emitters = new long[reader.readArray()];
        for (int emitter = 0; emitter < emitters.length; emitter++) {
            emitters[emitter] = reader.readLong();
        }
        String type = reader.readString();
        String message = reader.readString();
        long time = AttributeType.milliseconds(reader.readLong());
        long sequence = reader.readLong();
        List<Event.Variant> variants = new ArrayList<>();
        variants.add(new Event.Variant(message, eventData(type)));
        for (int left = reader.readArray(); left > 0; left--) {
            reader.readArray(2, "a variant of an event");
            variants.add(new Event.Variant(reader.readString(), eventData(type)));
        }
        Event event = new Event(type, time, sequence, variants.toArray(new Event.Variant[0]),
            readChoices(variants.size()), objects.policy());
        objects.kept.add(event, reader.position() - start);
        for (long emitter : emitters) {
            ManagedObject object = objects.find(emitter);
            if (object != null) {
                object.emit(event);
            }
        }
    }

    private CompositeData eventData(String type) throws MalformedException, CommandException {
        String[] names = new String[reader.readArray()];
        AttributeType[] types = new AttributeType[names.length];
        Object[] values = new Object[names.length];
        for (int item = 0; item < names.length; item++) {
            reader.readArray(3, "an item of an event's data");
            names[item] = reader.readString();
            types[item] = AttributeType.read(reader.readLong());
            values[item] = value(type, names[item], types[item]);
        }
        return eventTypes.data(type, names, types, values);
    }
}
