package amqp.gateway.jmx;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.TabularData;

/**
 * Values of clients, encoded for Python: nil, or {@code [type, value]} with the type that the value has by itself.
 *
 * <p>Whether it is of the type of its attribute is for the gateway's core to say.
 */
final class ClientValues {
    private final ManagedObjects objects;

    /** Names of MBeans are looked up in {@code objects}. */
    ClientValues(ManagedObjects objects) {
        this.objects = objects;
    }

    /**
     * Writes a value.
     *
     * @throws CommandException no attribute has such values
     */
    void write(Object value, MessageWriter writer) throws CommandException {
        if (value == null) {
            writer.nil();
        } else if (value instanceof Boolean) {
            begin(AttributeType.BOOLEAN, writer).bool((Boolean) value);
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short
                || value instanceof Byte) {
            begin(AttributeType.LONG, writer).integer(((Number) value).longValue());
        } else if (value instanceof BigInteger) {
            begin(AttributeType.BIG_INTEGER, writer).string(value.toString());
        } else if (value instanceof Double || value instanceof Float) {
            begin(AttributeType.DOUBLE, writer).real(((Number) value).doubleValue());
        } else if (value instanceof String) {
            begin(AttributeType.STRING, writer).string(text(value));
        } else if (value instanceof Date) {
            begin(AttributeType.DATE, writer).integer(((Date) value).getTime());
        } else if (value instanceof byte[]) {
            begin(AttributeType.BYTES, writer).bytes((byte[]) value);
        } else if (value instanceof ObjectName) {
            writeName((ObjectName) value, writer);
        } else if (value instanceof String[]) {
            writeList((String[]) value, writer);
        } else if (value instanceof TabularData) {
            writeMap((TabularData) value, writer);
        } else {
            throw new CommandException("a value of " + value.getClass().getName() + " cannot be taken");
        }
    }

    private static MessageWriter begin(AttributeType type, MessageWriter writer) {
        return writer.array(2).integer(type.number());
    }

    private void writeName(ObjectName name, MessageWriter writer) throws CommandException {
        ManagedObject object = objects.find(name);
        if (object == null || !object.existsFor(Caller.number())) {
            throw new CommandException(name + " is no MBean of the gateway");
        }
        begin(AttributeType.OBJECT_NAME, writer).array(2).integer(object.number).string(object.stableName());
    }

    private static void writeList(String[] items, MessageWriter writer) throws CommandException {
        begin(AttributeType.LIST, writer).array(items.length);
        for (String item : items) {
            writer.string(text(item));
        }
    }

    private static void writeMap(TabularData table, MessageWriter writer) throws CommandException {
        Object[] rows = table.values().toArray();
        begin(AttributeType.MAP, writer).array(rows.length);
        for (Object row : rows) {
            // A client can send a table that no program made, with anything in it.
            CompositeData pair = row instanceof CompositeData ? (CompositeData) row : null;
            if (pair == null || !pair.containsKey("key") || !pair.containsKey("value")) {
                throw new CommandException("a table without the columns 'key' and 'value'");
            }
            writer.array(2).string(text(pair.get("key"))).string(text(pair.get("value")));
        }
    }

    /** A text as it is; nothing is replaced in it on the way. */
    private static String text(Object value) throws CommandException {
        if (!(value instanceof String)) {
            throw new CommandException("a list, or a map, holds something that is no text");
        }
        if (!StandardCharsets.UTF_8.newEncoder().canEncode((String) value)) {
            throw new CommandException("a text with half a character in it");
        }
        return (String) value;
    }
}
