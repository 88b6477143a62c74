package amqp.gateway.jmx;

/** How a request to Python ended, numbered as in {@code gateway/jmx/backend.py}. */
enum Status {
    /** Done. */
    APPLIED,
    /** Reported as done, but another value was read back; the text has it. */
    APPLIED_DIFFERENTLY,
    /** The object is gone. */
    GONE,
    /** No such attribute or operation, or one that is read-only. */
    UNKNOWN_ELEMENT,
    /** The user may not. */
    REFUSED,
    /** A value of the wrong type, or an impossible one. */
    BAD_VALUE,
    /** Possible, but not now. */
    NOT_NOW,
    /** The broker refused or failed; the text says how. */
    FAILED,
    /** The source cannot be reached: nothing was sent. */
    UNAVAILABLE,
    /** No answer in time: it may have been carried out. */
    OUTCOME_UNKNOWN;

    private static final Status[] BY_NUMBER = values();

    static Status read(MessageReader reader) throws MalformedException, CommandException {
        return BY_NUMBER[reader.readInt(0, BY_NUMBER.length - 1)];
    }
}
