package amqp.gateway.jmx;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Writes the MessagePack that our requests and answers are made of. */
final class MessageWriter {
    private final ByteArrayOutputStream octets = new ByteArrayOutputStream();

    /** Begins an array of {@code length} items. */
    MessageWriter array(int length) {
        // The longest form of each type, here and below: shorter ones would save octets on the loopback only.
        return put(ByteBuffer.allocate(5).put((byte) 0xdd).putInt(length));
    }

    MessageWriter integer(long value) {
        return put(ByteBuffer.allocate(9).put((byte) 0xd3).putLong(value));
    }

    MessageWriter nil() {
        return put(ByteBuffer.allocate(1).put((byte) 0xc0));
    }

    MessageWriter bool(boolean value) {
        return put(ByteBuffer.allocate(1).put((byte) (value ? 0xc3 : 0xc2)));
    }

    MessageWriter real(double value) {
        return put(ByteBuffer.allocate(9).put((byte) 0xcb).putDouble(value));
    }

    MessageWriter bytes(byte[] value) {
        return put(ByteBuffer.allocate(5 + value.length).put((byte) 0xc6).putInt(value.length).put(value));
    }

    /** A value that is written already. */
    MessageWriter raw(byte[] value) {
        return put(ByteBuffer.wrap(value));
    }

    MessageWriter string(String text) {
        byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
        return put(ByteBuffer.allocate(5 + encoded.length).put((byte) 0xdb).putInt(encoded.length).put(encoded));
    }

    byte[] toBytes() {
        return octets.toByteArray();
    }

    private MessageWriter put(ByteBuffer buffer) {
        octets.write(buffer.array(), 0, buffer.capacity());
        return this;
    }
}
