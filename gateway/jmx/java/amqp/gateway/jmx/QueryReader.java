package amqp.gateway.jmx;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InvalidClassException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.Map;
import javax.management.ObjectName;

/**
 * Reads the query of a client into nodes of ours ({@link Expression}); no class of the JDK's queries is loaded.
 *
 * <p>It has bounds, within which a node counts as often as the query refers to it.
 */
final class QueryReader extends ObjectInputStream {
    static final int MAX_NODES = 1000;
    static final int MAX_LEVELS = 100;

    private static final Map<String, Class<?>> CLASSES = new HashMap<>(Expression.BY_NAME);

    static {
        CLASSES.put(Expression.VALUES_NAME, Expression.VALUES);
        CLASSES.put(java.rmi.MarshalledObject.class.getName(), MarshalledObject.class);
        for (Class<?> type : new Class<?>[] {
            Byte.class, Short.class, Integer.class, Long.class, Float.class, Double.class, Number.class,
            BigInteger.class, BigDecimal.class, byte[].class, ObjectName.class}) {
            CLASSES.put(type.getName(), type);
        }
    }

    private QueryReader(byte[] octets) throws IOException {
        super(new ByteArrayInputStream(octets));
        enableResolveObject(true);
    }

    /**
     * Reads a query.
     *
     * @return null where the client has sent none
     * @throws RefusedQueryException it is not evaluated, for a reason that can be said
     */
    static Condition read(java.rmi.MarshalledObject<?> sent) throws IOException {
        if (sent == null) {
            return null;
        }
        try (QueryReader outer = new QueryReader(octetsOf(sent))) {
            byte[] octets = ((MarshalledObject) outer.readObject()).octets();
            if (octets == null) {
                return null;
            }
            try (QueryReader reader = new QueryReader(octets)) {
                reader.setObjectInputFilter(SerialFilters.QUERY);
                Condition query = (Condition) reader.readObject();
                new Size().add(query, 1);
                return query;
            }
        } catch (InvalidClassException error) {
            throw new RefusedQueryException(error.classname == null
                ? "it is too large, or too deeply nested" : error.getMessage());
        } catch (RefusedQueryException error) {
            throw error;
        } catch (ClassNotFoundException | IOException | RuntimeException error) {
            throw new RefusedQueryException("it is no query: " + error);
        } catch (StackOverflowError error) {
            throw new RefusedQueryException("it is too deeply nested");
        }
    }

    private static byte[] octetsOf(java.rmi.MarshalledObject<?> sent) throws IOException {
        ByteArrayOutputStream octets = new ByteArrayOutputStream();
        try (ObjectOutputStream output = new ObjectOutputStream(octets)) {
            output.writeObject(sent);
        }
        return octets.toByteArray();
    }

    @Override
    protected Class<?> resolveClass(ObjectStreamClass description) throws IOException {
        Class<?> type = CLASSES.get(description.getName());
        if (type == null) {
            throw new InvalidClassException(description.getName(), "no query has objects of this class");
        }
        return type;
    }

    @Override
    protected Class<?> resolveProxyClass(String[] interfaces) throws IOException {
        throw new InvalidClassException("a proxy", "no query has objects of this class");
    }

    @Override
    protected Object resolveObject(Object read) {
        return read instanceof ObjectName ? new NamePattern((ObjectName) read) : read;
    }

    /** How large a query is as a tree. */
    private static final class Size {
        private int nodes;
        private int characters;

        private void add(Expression node, int level) throws RefusedQueryException {
            if (node == null) {
                return;
            }
            nodes++;
            characters += node.length();
            if (nodes > MAX_NODES) {
                throw new RefusedQueryException("it has more than " + MAX_NODES
                    + " parts; each counts as often as the query refers to it");
            }
            if (characters > Expression.MAX_TEXT) {
                throw new RefusedQueryException("its texts have more than " + Expression.MAX_TEXT
                    + " characters; each counts as often as the query refers to it");
            }
            if (level > MAX_LEVELS) {
                throw new RefusedQueryException("it has more than " + MAX_LEVELS + " levels, or refers to itself");
            }
            for (Expression part : node.parts()) {
                add(part, level + 1);
            }
        }
    }
}
