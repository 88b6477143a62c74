package amqp.gateway.jmx;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.InvalidAttributeValueException;
import javax.management.MBeanException;
import javax.management.ObjectName;
import javax.management.ReflectionException;
import javax.management.RuntimeOperationsException;
import py4j.Py4JException;

/**
 * What clients set and invoke: requests to Python, which has them carried out, in the thread that asks.
 *
 * <p>Here only what an MBean itself says is known: which attributes can be written, which operations there are.
 * Whether a client may, and whether a value is possible, the gateway's core decides.
 */
final class Operations {
    /** At a time; reads are not among them, and Python has a thread for each. */
    static final int MAX_AT_A_TIME = 64;
    /** {@code MAX_REQUEST_OCTETS} of {@code gateway/jmx/backend.py}. */
    static final int MAX_REQUEST_OCTETS = 262_144;

    private final ManagedObjects objects;
    private final Backend backend;
    private final ClientValues values;
    private final Semaphore places = new Semaphore(MAX_AT_A_TIME);
    private final AtomicLong requests = new AtomicLong();
    final Refusals refusals;

    Operations(ManagedObjects objects, Backend backend) {
        this.objects = objects;
        this.backend = backend;
        this.values = new ClientValues(objects);
        this.refusals = new Refusals(backend);
    }

    /** How many wait for their answer. */
    int underWay() {
        return MAX_AT_A_TIME - places.availablePermits();
    }

    /** As {@code MBeanServer.setAttribute}. */
    void set(ObjectName name, Attribute attribute) throws InstanceNotFoundException,
            AttributeNotFoundException, InvalidAttributeValueException, MBeanException {
        ManagedObject object = object(name);
        String attributeName = required(attribute).getName();
        Rights rights = rights(object);
        if (!rights.isSettable(attributeName)) {
            throw new AttributeNotFoundException(!rights.hasAttribute(attributeName)
                ? "unknown-element: " + name + " has no attribute " + attributeName
                : "read-only: " + attributeName + " of " + name + " cannot be set");
        }
        MessageWriter request = begin("set", 7, object).array(1).array(2).string(attributeName);
        try {
            values.write(attribute.getValue(), request);
        } catch (CommandException error) {
            throw new InvalidAttributeValueException("wrong-type: " + attributeName + ": " + error.getMessage()
                + "; " + rights.definition.typeOf(attributeName) + " is wanted");
        }
        ask(request).checkSet();
    }

    /**
     * As {@code MBeanServer.setAttributes}: as one operation, and without an exception.
     *
     * @return the attributes that are known to have been set; the outcome of the others is in the MBean itself, and
     *     by a notification
     */
    AttributeList setAll(ObjectName name, AttributeList attributes) throws InstanceNotFoundException {
        ManagedObject object = object(name);
        Map<String, Attribute> asked = new LinkedHashMap<>();
        Map<String, byte[]> written = new LinkedHashMap<>();
        for (Object item : required(attributes)) {
            if (item instanceof Attribute) {
                Attribute attribute = (Attribute) item;
                byte[] value = written(object, attribute);
                if (value != null) {
                    asked.put(attribute.getName(), attribute);
                    written.put(attribute.getName(), value);
                }
            }
        }
        AttributeList set = new AttributeList();
        if (!asked.isEmpty()) {
            MessageWriter request = begin("set", 7, object).array(written.size());
            written.forEach((attribute, value) -> request.array(2).string(attribute).raw(value));
            Answer answer = ask(request);
            if (answer.status == Status.GONE) {
                throw new InstanceNotFoundException(answer.text);
            }
            addSet(answer, asked, set);
        }
        return set;
    }

    /** The octets of an attribute's value; null where it cannot be set, or not to that. */
    private byte[] written(ManagedObject object, Attribute attribute) throws InstanceNotFoundException {
        String name = attribute.getName();
        Rights rights = rights(object);
        if (!rights.isSettable(name)) {
            refusals.report("set", object.name, object.number, "", List.of(name),
                rights.hasAttribute(name) ? "read-only" : "unknown-element",
                name + " cannot be set");
            return null;
        }
        try {
            MessageWriter writer = new MessageWriter();
            values.write(attribute.getValue(), writer);
            return writer.toBytes();
        } catch (CommandException error) {
            refusals.report("set", object.name, object.number, "", List.of(name), "wrong-type",
                name + ": " + error.getMessage());
            return null;
        }
    }

    private static void addSet(Answer answer, Map<String, Attribute> asked, AttributeList set) {
        if (answer.items == null) {
            return;
        }
        try {
            for (int left = answer.items.readArray(); left > 0; left--) {
                Attribute attribute = asked.get(answer.items.readString());
                if (attribute != null) {
                    set.add(attribute);
                }
            }
        } catch (MalformedException | CommandException error) {
            System.err.println("the answer to a request to set attributes: " + error.getMessage());
        }
    }

    /** As {@code MBeanServer.invoke}. */
    Object invoke(ObjectName name, String operation, Object[] parameters, String[] signature)
            throws InstanceNotFoundException, MBeanException, ReflectionException {
        ManagedObject object = object(name);
        OperationDefinition definition = rights(object).definition.operation(required(operation));
        // RMI makes an empty signature of one that is left out.
        boolean isGiven = signature != null && signature.length > 0;
        if (definition == null || isGiven && !Arrays.equals(signature, definition.signature())) {
            throw noSuchOperation(name, operation, definition);
        }
        int given = parameters == null ? 0 : parameters.length;
        if (given != definition.size()) {
            throw illegal("wrong-value: " + operation + " takes " + definition.size() + " parameters, not " + given);
        }
        MessageWriter request = begin("invoke", 8, object).string(operation).array(given);
        for (int parameter = 0; parameter < given; parameter++) {
            try {
                values.write(parameters[parameter], request);
            } catch (CommandException error) {
                throw illegal("wrong-type: parameter " + definition.parameter(parameter) + " of " + operation
                    + ": " + error.getMessage() + "; " + definition.signature()[parameter] + " is wanted");
            }
        }
        Answer answer = ask(request);
        answer.checkInvoked();
        try {
            return definition.readResult(answer.items);
        } catch (MalformedException | CommandException error) {
            String text =
                "applied: it was carried out, but what it returned cannot be shown: " + error.getMessage();
            throw new MBeanException(new Exception(text), text);
        }
    }

    /** The number of a managed object of that name; 0 where there is none. */
    long number(ObjectName name) {
        ManagedObject object = name == null ? null : objects.find(name);
        return object == null ? 0 : object.number;
    }

    /** The table of that name that exists for the caller; null where there is none. */
    Table table(ObjectName name) {
        Table table = objects.table(name);
        return table != null && table.existsFor(Caller.number()) ? table : null;
    }

    /** Whether any rule lets the caller change anything; what, the gateway's core decides. */
    boolean mayChange() {
        return objects.mayChange(Caller.number(), Caller.mayChange());
    }

    /** What the caller sees. */
    Viewer viewer() {
        return new Viewer(Caller.number(), objects);
    }

    private ManagedObject object(ObjectName name) throws InstanceNotFoundException {
        ManagedObject object = objects.find(required(name));
        if (object == null || !object.existsFor(Caller.number())) {
            throw missing(name);
        }
        return object;
    }

    /** The caller's rights to an object. */
    private static Rights rights(ManagedObject object) throws InstanceNotFoundException {
        Rights rights = object.rights(Caller.number());
        if (rights == null) {
            throw missing(object.name);
        }
        return rights;
    }

    private static InstanceNotFoundException missing(ObjectName name) {
        return new InstanceNotFoundException("object-gone: there is no " + name);
    }

    private MessageWriter begin(String operation, int fields, ManagedObject object) {
        return new MessageWriter().array(fields).string(operation).integer(requests.incrementAndGet())
            .integer(object.number).string(object.stableName()).string(Caller.user()).string(Caller.host());
    }

    private Answer ask(MessageWriter writer) {
        byte[] request = writer.toBytes();
        if (request.length > MAX_REQUEST_OCTETS) {
            return Answer.refused(Status.BAD_VALUE,
                "wrong-length: all values together take " + request.length + " octets; there may be "
                    + MAX_REQUEST_OCTETS);
        }
        if (!places.tryAcquire()) {
            return Answer.refused(Status.NOT_NOW,
                "not-now: " + MAX_AT_A_TIME + " operations are under way, which is the most there may be: nothing was"
                    + " sent, try again");
        }
        refusals.asked();
        try {
            return Answer.read(backend.call(request));
        } catch (Py4JException | MalformedException | CommandException error) {
            System.err.println("an operation has no answer: " + error.getMessage());
            return Answer.unknown("the gateway did not answer");
        } finally {
            places.release();
        }
    }

    private static ReflectionException noSuchOperation(
            ObjectName name, String operation, OperationDefinition definition) {
        String text = "unknown-element: " + name + " has no operation " + operation
            + (definition == null ? "" : " but with the signature " + Arrays.toString(definition.signature()));
        return new ReflectionException(new NoSuchMethodException(text), text);
    }

    private static RuntimeOperationsException illegal(String text) {
        return new RuntimeOperationsException(new IllegalArgumentException(text), text);
    }

    private static <T> T required(T argument) {
        if (argument == null) {
            throw illegal("wrong-value: null");
        }
        return argument;
    }
}
