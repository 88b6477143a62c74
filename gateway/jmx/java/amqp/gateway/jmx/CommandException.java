package amqp.gateway.jmx;

/** A command, or one value in it, that cannot be carried out; what follows it can. */
final class CommandException extends Exception {
    private static final long serialVersionUID = 1L;

    CommandException(String problem) {
        super(problem);
    }
}
