package amqp.gateway.jmx;

/** A node of a query that is true or false for an MBean. */
abstract class Condition extends Expression {
    private static final long serialVersionUID = 1L;

    /**
     * Whether it is true.
     *
     * @throws Expression.UnfitException where the JDK throws; a {@code RuntimeException} is one, too
     */
    abstract boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException;
}
