package amqp.gateway.jmx;

import java.net.ConnectException;
import java.util.concurrent.TimeoutException;
import javax.management.AttributeNotFoundException;
import javax.management.InstanceNotFoundException;
import javax.management.InvalidAttributeValueException;
import javax.management.MBeanException;
import javax.management.ReflectionException;
import javax.management.RuntimeOperationsException;

/** Python's answer to a request, and the exceptions that JMX has for it. All of them are Java's own classes. */
final class Answer {
    final Status status;
    final String text;
    /** Stands before the array of items; null where no answer came. */
    final MessageReader items;

    private Answer(Status status, String text, MessageReader items) {
        this.status = status;
        this.text = text;
        this.items = items;
    }

    /** Reads {@code [status, text, items]} as far as the items. */
    static Answer read(byte[] octets) throws MalformedException, CommandException {
        MessageReader reader = new MessageReader(octets);
        reader.readArray(3, "an answer");
        return new Answer(Status.read(reader), reader.readString(), reader);
    }

    /** The outcome of the request is unknown. */
    static Answer unknown(String reason) {
        return new Answer(Status.OUTCOME_UNKNOWN, "unknown: " + reason + ": it may have been carried out", null);
    }

    /** Nothing was asked, for this reason. */
    static Answer refused(Status status, String reason) {
        return new Answer(status, reason, null);
    }

    /** Throws what a client gets for an attribute that was not set; nothing if it was. */
    void checkSet() throws InstanceNotFoundException, AttributeNotFoundException,
            InvalidAttributeValueException, MBeanException {
        if (status == Status.UNKNOWN_ELEMENT) {
            throw new AttributeNotFoundException(text);
        }
        if (status == Status.APPLIED_DIFFERENTLY || status == Status.BAD_VALUE) {
            throw new InvalidAttributeValueException(text);
        }
        checkCommon();
    }

    /** Throws what a client gets for an operation that was not carried out; nothing if it was. */
    void checkInvoked() throws InstanceNotFoundException, ReflectionException, MBeanException {
        if (status == Status.UNKNOWN_ELEMENT) {
            throw new ReflectionException(new NoSuchMethodException(text), text);
        }
        if (status == Status.BAD_VALUE) {
            throw new RuntimeOperationsException(new IllegalArgumentException(text), text);
        }
        checkCommon();
    }

    private void checkCommon() throws InstanceNotFoundException, MBeanException {
        if (status == Status.GONE) {
            throw new InstanceNotFoundException(text);
        }
        if (status == Status.REFUSED) {
            throw new SecurityException(text);
        }
        if (status != Status.APPLIED) {
            throw new MBeanException(cause(), text);
        }
    }

    /** Makes the cause of an {@code MBeanException}, by whose class programs distinguish outcomes. */
    private Exception cause() {
        if (status == Status.NOT_NOW) {
            return new IllegalStateException(text);
        }
        if (status == Status.UNAVAILABLE) {
            return new ConnectException(text);
        }
        return status == Status.OUTCOME_UNKNOWN ? new TimeoutException(text) : new Exception(text);
    }
}
