package amqp.gateway.jmx;

/** What a notification reports is not kept any more. */
final class ForgottenException extends Exception {
    private static final long serialVersionUID = 1L;

    ForgottenException() {
        super(null, null, false, false);
    }
}
