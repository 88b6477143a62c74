package amqp.gateway.jmx;

import java.math.BigDecimal;
import java.util.Date;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import javax.management.openmbean.ArrayType;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;
import javax.management.openmbean.TabularDataSupport;
import javax.management.openmbean.TabularType;

/** What a client sees in Java, numbered and encoded as {@code gateway/jmx/commands.py} defines. */
enum AttributeType {
    BOOLEAN(SimpleType.BOOLEAN) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readBoolean();
        }
    },
    LONG(SimpleType.LONG) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readLong();
        }

        @Override
        Comparable<?> limit(BigDecimal value) {
            return value.longValueExact();
        }
    },
    BIG_INTEGER(SimpleType.BIGINTEGER) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readBigInteger();
        }

        @Override
        Comparable<?> limit(BigDecimal value) {
            return value.toBigIntegerExact();
        }
    },
    DOUBLE(SimpleType.DOUBLE) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readDouble();
        }

        @Override
        Comparable<?> limit(BigDecimal value) {
            return value.doubleValue();
        }
    },
    STRING(SimpleType.STRING) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readString();
        }
    },
    DATE(SimpleType.DATE) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return new Date(milliseconds(reader.readLong()));
        }
    },
    BYTES(Composed.BYTES) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return reader.readBytes();
        }
    },
    OBJECT_NAME(SimpleType.OBJECTNAME) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            return objectName(reader.readString());
        }
    },
    MAP(Composed.MAP) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            int pairs = reader.readArray();
            TabularDataSupport table = new TabularDataSupport(Composed.MAP);
            for (int pair = 0; pair < pairs; pair++) {
                reader.readArray(2, "a pair");
                CompositeData row = Composed.row(reader.readString(), reader.readString());
                table.remove(new Object[] {row.get("key")});  // of a repeated key the last value counts
                table.put(row);
            }
            return table;
        }
    },
    LIST(Composed.STRINGS) {
        @Override
        Object read(MessageReader reader) throws MalformedException, CommandException {
            String[] items = new String[reader.readArray()];
            for (int item = 0; item < items.length; item++) {
                items[item] = reader.readString();
            }
            return items;
        }
    };

    private static final AttributeType[] BY_NUMBER = values();

    final OpenType<?> openType;

    AttributeType(OpenType<?> openType) {
        this.openType = openType;
    }

    /** The value that comes next, which is not nil. */
    abstract Object read(MessageReader reader) throws MalformedException, CommandException;

    /** A limit of a range as a value of this type; null where such values have no order. */
    Comparable<?> limit(BigDecimal value) {
        return null;
    }

    /** As it is written. */
    int number() {
        return ordinal() + 1;
    }

    static AttributeType read(long number) throws CommandException {
        if (number < 1 || number > BY_NUMBER.length) {
            throw new CommandException("there is no attribute type " + number);
        }
        return BY_NUMBER[(int) number - 1];
    }

    /** The name that {@code text} is, which may be of one object only. */
    static ObjectName objectName(String text) throws CommandException {
        try {
            return ObjectName.getInstance(text);
        } catch (MalformedObjectNameException error) {
            throw new CommandException("'" + text + "' is no object name: " + error.getMessage());
        }
    }

    /** Nanoseconds since the epoch as milliseconds, which is what Java's dates hold. */
    static long milliseconds(long nanoseconds) {
        return Math.floorDiv(nanoseconds, 1_000_000L);
    }

    /** The types that are made of others; an enumeration's constants cannot refer to its own static fields. */
    private static final class Composed {
        static final OpenType<?> BYTES;
        static final OpenType<?> STRINGS;
        static final TabularType MAP;
        private static final String[] COLUMNS = {"key", "value"};
        private static final CompositeType ROW;

        static {
            try {
                BYTES = new ArrayType<byte[]>(SimpleType.BYTE, true);
                STRINGS = new ArrayType<String[]>(1, SimpleType.STRING);
                OpenType<?>[] types = {SimpleType.STRING, SimpleType.STRING};
                ROW = new CompositeType("entry", "one entry of a map", COLUMNS, COLUMNS, types);
                MAP = new TabularType("map", "texts by key", ROW, new String[] {"key"});
            } catch (OpenDataException error) {
                throw new ExceptionInInitializerError(error);
            }
        }

        static CompositeData row(String key, String value) {
            try {
                return new CompositeDataSupport(ROW, COLUMNS, new Object[] {key, value});
            } catch (OpenDataException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
