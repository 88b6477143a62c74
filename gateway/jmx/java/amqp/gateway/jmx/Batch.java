package amqp.gateway.jmx;

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
        int operation = reader.readInt(1, 7);
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
                expect(fields, 7);
                register();
                break;
            case 4:
                expect(fields, 4);
                change();
                break;
            case 5:
                expect(fields, 2);
                objects.unregister(reader.readLong());
                break;
            case 6:
                expect(fields, 7);
                emit();
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

    private void register() throws MalformedException, CommandException {
        long number = reader.readLong();
        ClassDefinition definition = objects.definition(reader.readLong());
        Group group = objects.group(reader.readLong());
        ObjectName name = AttributeType.objectName(reader.readString());
        reader.readArray(definition.size(), "the array of values");
        Object[] values = new Object[definition.size()];
        for (int position = 0; position < values.length; position++) {
            AttributeDefinition attribute = definition.attribute(position);
            values[position] = value(name, attribute.name, attribute.type);
        }
        objects.register(number, name, definition, group, reader.readLong(), values);
    }

    private void change() throws MalformedException, CommandException {
        long number = reader.readLong();
        ManagedObject object = objects.find(number);
        if (object == null) {
            throw new CommandException("there is no object " + number);
        }
        // A copy: readers may hold the present array, which must not change under them.
        Object[] values = object.copyOfValues();
        int[] positions = new int[reader.readArray()];
        for (int place = 0; place < positions.length; place++) {
            positions[place] = reader.readInt(0, values.length - 1);
        }
        reader.readArray(positions.length, "the array of values");
        for (int position : positions) {
            AttributeDefinition attribute = object.definition.attribute(position);
            values[position] = value(object.name, attribute.name, attribute.type);
        }
        object.replace(object.group(), values);
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

    private void emit() throws MalformedException, CommandException {
        long[] emitters = new long[reader.readArray()];
        for (int emitter = 0; emitter < emitters.length; emitter++) {
            emitters[emitter] = reader.readLong();
        }
        String type = reader.readString();
        String message = reader.readString();
        long time = AttributeType.milliseconds(reader.readLong());
        long sequence = reader.readLong();
        CompositeData data = eventData(type);
        for (long emitter : emitters) {
            ManagedObject object = objects.find(emitter);
            if (object instanceof EmittingObject) {
                ((EmittingObject) object).emit(type, message, time, sequence, data);
            } else if (object != null) {
                errors.add(object.name + " is of a class without notifications, and emits no " + type);
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
