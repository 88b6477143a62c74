package amqp.gateway.jmx;

/** The certificates and the key of TLS, all in DER, as Python has read them. */
final class TlsSettings {
    /** Of a chain, or of the authorities of clients. */
    private static final int MAX_CERTIFICATES = 1000;

    /** The name of the key's kind, as a {@code KeyFactory} has it. */
    final String algorithm;
    /** The private key, in PKCS#8. */
    final byte[] key;
    /** The gateway's certificate, and those between it and the root. */
    final byte[][] chain;
    /** Whose certificates clients need; empty where they need none. */
    final byte[][] authorities;

    private TlsSettings(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(4, "the settings of TLS");
        algorithm = reader.readString();
        key = reader.readBytes();
        chain = certificates(reader);
        authorities = certificates(reader);
    }

    /** The settings that come next; null for nil, which is plain text. */
    static TlsSettings read(MessageReader reader) throws MalformedException, CommandException {
        return reader.skipNil() ? null : new TlsSettings(reader);
    }

    private static byte[][] certificates(MessageReader reader) throws MalformedException, CommandException {
        int count = reader.readArray();
        if (count > MAX_CERTIFICATES) {
            throw new CommandException(count + " certificates; there may be " + MAX_CERTIFICATES);
        }
        byte[][] certificates = new byte[count][];
        for (int index = 0; index < count; index++) {
            certificates[index] = reader.readBytes();
        }
        return certificates;
    }
}
