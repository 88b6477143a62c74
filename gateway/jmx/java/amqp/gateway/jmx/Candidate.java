package amqp.gateway.jmx;

import javax.management.JMException;
import javax.management.ObjectName;

/** An MBean to which a query is applied: what the query may ask of it is what its user sees. */
final class Candidate {
    final ObjectName name;
    final Deadline deadline;
    private final Viewer viewer;

    Candidate(ObjectName name, Viewer viewer, Deadline deadline) {
        this.name = name;
        this.viewer = viewer;
        this.deadline = deadline;
    }

    /** Evaluates a condition of the query, if there is still time for it. */
    boolean isTrue(Condition condition) throws Expression.UnfitException, RefusedQueryException {
        deadline.check();
        return condition.isTrue(this);
    }

    /** Evaluates a value of the query, if there is still time for it. */
    ValueExp value(ValueExp value) throws Expression.UnfitException, RefusedQueryException {
        deadline.check();
        return value.apply(this);
    }

    /** The value of an attribute; null where there is none. */
    Object attribute(String attribute) {
        try {
            return viewer.attribute(name, attribute);
        } catch (JMException | RuntimeException error) {
            return null;
        }
    }

    /** The class that the MBean describes itself with. */
    String className() throws Expression.UnfitException {
        try {
            return viewer.className(name);
        } catch (JMException error) {
            throw Expression.UNFIT;
        }
    }

    boolean isInstanceOf(String className) {
        try {
            return viewer.isInstanceOf(name, className);
        } catch (JMException error) {
            return false;
        }
    }
}
