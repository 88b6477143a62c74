package amqp.gateway.jmx;

/** A node of a query that has a value for an MBean; named as in the JDK, because arrays of it are sent. */
abstract class ValueExp extends Expression {
    private static final long serialVersionUID = 1L;

    /**
     * Its value: a number, text or truth value.
     *
     * @throws Expression.UnfitException where the JDK throws; a {@code RuntimeException} is one, too
     */
    abstract ValueExp apply(Candidate one) throws UnfitException, RefusedQueryException;
}
