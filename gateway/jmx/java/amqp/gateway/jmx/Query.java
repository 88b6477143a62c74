package amqp.gateway.jmx;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.management.ManagementFactory;
import java.rmi.MarshalledObject;
import java.rmi.UnmarshalException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import javax.management.BadAttributeValueExpException;
import javax.management.BadBinaryOpValueExpException;
import javax.management.BadStringOperationException;
import javax.management.InvalidApplicationException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.QueryExp;
import javax.management.ValueExp;

/**
 * Evaluates the queries of clients for a bounded time.
 *
 * <p>An expression of a few octets can refer to itself so often that its value would take for ever. So each node
 * that has others below it is put into a step, which looks at the clock.
 */
final class Query {
    private static final long MAX_NANOSECONDS = TimeUnit.SECONDS.toNanos(10);
    private static final String ARITHMETIC = "javax.management.BinaryOpValueExp";

    /** When the evaluation of this thread has to have ended, by the clock of the virtual machine. */
    private static final ThreadLocal<Long> END = ThreadLocal.withInitial(System::nanoTime);

    private Query() {
    }

    /** The expression that a client has sent; null without one. */
    static QueryExp read(MarshalledObject<?> query) throws IOException {
        if (query == null) {
            return null;
        }
        try {
            // Behind the filter of the request. Writing takes each node once, however often it is referred to.
            Object expression = query.get();
            ByteArrayOutputStream octets = new ByteArrayOutputStream();
            try (ObjectOutputStream output = new ObjectOutputStream(octets)) {
                output.writeObject(expression);
            }
            try (Reader input = new Reader(new ByteArrayInputStream(octets.toByteArray()))) {
                return (QueryExp) input.readObject();
            }
        } catch (ClassNotFoundException | RuntimeException error) {
            throw new UnmarshalException(error.toString(), error);
        }
    }

    /**
     * Keeps those for whose MBean the expression is true, as the server of MBeans does.
     *
     * @throws IOException it takes too long
     */
    static <T> Set<T> select(QueryExp expression, Set<T> found, Function<T, ObjectName> name, Viewer viewer)
            throws IOException {
        if (expression == null) {
            return found;
        }
        // It must not find out what its user does not see.
        MBeanServer server = viewer.server(ManagementFactory.getPlatformMBeanServer());
        END.set(System.nanoTime() + MAX_NANOSECONDS);
        Set<T> selected = new HashSet<>();
        for (T one : found) {
            expression.setMBeanServer(server);
            if (isTrue(expression, name.apply(one))) {
                selected.add(one);
            }
        }
        return selected;
    }

    private static boolean isTrue(QueryExp expression, ObjectName name) throws IOException {
        try {
            return expression.apply(name);
        } catch (TooLongException error) {
            throw new IOException("the query takes too long: ask for less");
        } catch (StackOverflowError error) {
            throw new IOException("the query refers to itself");
        } catch (Exception error) {
            // As of an MBean without the attribute.
            return false;
        }
    }

    /** Puts each node into a step. */
    private static final class Reader extends ObjectInputStream {
        Reader(InputStream input) throws IOException {
            super(input);
            enableResolveObject(true);
        }

        @Override
        protected Object resolveObject(Object node) {
            if (node instanceof QueryExp && !(node instanceof ObjectName)) {
                return new QueryStep((QueryExp) node);
            }
            // Other values are what their names say; some places take only those.
            return node.getClass().getName().equals(ARITHMETIC) ? new ValueStep((ValueExp) node) : node;
        }
    }

    private static final class TooLongException extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /** A part of the evaluation begins. */
    private static void count() {
        if (System.nanoTime() - END.get() > 0) {
            throw new TooLongException();
        }
    }

    private static final class QueryStep implements QueryExp {
        private static final long serialVersionUID = 1L;
        private final transient QueryExp node;

        QueryStep(QueryExp node) {
            this.node = node;
        }

        @Override
        public boolean apply(ObjectName name) throws BadStringOperationException, BadBinaryOpValueExpException,
                BadAttributeValueExpException, InvalidApplicationException {
            count();
            return node.apply(name);
        }

        @Override
        public void setMBeanServer(MBeanServer server) {
            node.setMBeanServer(server);
        }
    }

    private static final class ValueStep implements ValueExp {
        private static final long serialVersionUID = 1L;
        private final transient ValueExp node;

        ValueStep(ValueExp node) {
            this.node = node;
        }

        @Override
        public ValueExp apply(ObjectName name) throws BadStringOperationException, BadBinaryOpValueExpException,
                BadAttributeValueExpException, InvalidApplicationException {
            count();
            return node.apply(name);
        }

        @Override
        @Deprecated
        public void setMBeanServer(MBeanServer server) {
            // The node has it from the thread, as the query has.
        }
    }
}
