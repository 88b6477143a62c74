package amqp.gateway.jmx;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Reads MessagePack (its specification of 2013, without extension types).
 *
 * <p>Any octets give values or an exception, in time and memory linear to their length: every length is held
 * against what is left before anything is allocated. A value of another type than the one asked for is a
 * {@link CommandException}, after which {@link #skipFrom} goes on behind it.
 */
final class MessageReader {
    private static final BigInteger TWO_TO_64 = BigInteger.ONE.shiftLeft(64);

    // No ByteBuffer, whose calls the first compiler of the virtual machine does not inline.
    private final byte[] octets;
    private int position;

    MessageReader(byte[] octets) {
        this.octets = octets;
    }

    int position() {
        return position;
    }

    boolean atEnd() {
        return position == octets.length;
    }

    /** The octets from {@code start} to here. */
    byte[] since(int start) {
        return Arrays.copyOfRange(octets, start, position);
    }

    /** Passes over nil, if that is what comes next. */
    boolean skipNil() throws MalformedException {
        boolean nil = peek() == 0xc0;
        if (nil) {
            position++;
        }
        return nil;
    }

    boolean readBoolean() throws MalformedException, CommandException {
        int format = peek();
        if (format != 0xc2 && format != 0xc3) {
            throw expected("a boolean", format);
        }
        position++;
        return format == 0xc3;
    }

    /** An integer from -2^63 to 2^63-1. */
    long readLong() throws MalformedException, CommandException {
        int format = peek();
        if (!isInteger(format)) {
            throw expected("an integer", format);
        }
        position++;
        long value = integer(format);
        if (format == 0xcf && value < 0) {
            throw new CommandException(
                Long.toUnsignedString(value) + " is above 2^63-1, which a long does not hold");
        }
        return value;
    }

    /** An integer from {@code minimum} to {@code maximum}. */
    int readInt(int minimum, int maximum) throws MalformedException, CommandException {
        long value = readLong();
        if (value < minimum || value > maximum) {
            throw new CommandException(value + " is not from " + minimum + " to " + maximum);
        }
        return (int) value;
    }

    /** An integer from -2^63 to 2^64-1. */
    BigInteger readBigInteger() throws MalformedException, CommandException {
        int format = peek();
        if (!isInteger(format)) {
            throw expected("an integer", format);
        }
        position++;
        BigInteger value = BigInteger.valueOf(integer(format));
        return format == 0xcf && value.signum() < 0 ? value.add(TWO_TO_64) : value;
    }

    /** A floating-point number; an integer is one too, as it is in Python. */
    double readDouble() throws MalformedException, CommandException {
        int format = peek();
        if (format == 0xca) {
            position++;
            return Float.intBitsToFloat((int) unsigned(4));
        }
        if (format == 0xcb) {
            position++;
            return Double.longBitsToDouble(unsigned(8));
        }
        if (isInteger(format)) {
            return readBigInteger().doubleValue();
        }
        throw expected("a number", format);
    }

    /** A number in full; infinity and what is not a number are neither. */
    BigDecimal readNumber() throws MalformedException, CommandException {
        if (isInteger(peek())) {
            return new BigDecimal(readBigInteger());
        }
        double value = readDouble();
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            throw new CommandException(value + " is no number");
        }
        return BigDecimal.valueOf(value);
    }

    String readString() throws MalformedException, CommandException {
        int format = peek();
        boolean isShort = (format & 0xe0) == 0xa0;
        if (!isShort && (format < 0xd9 || format > 0xdb)) {
            throw expected("a text", format);
        }
        position++;
        int length = isShort ? format & 0x1f : length(1 << format - 0xd9);
        need(length);
        String text = new String(octets, position, length, StandardCharsets.UTF_8);
        position += length;
        return text;
    }

    byte[] readBytes() throws MalformedException, CommandException {
        int format = peek();
        if (format < 0xc4 || format > 0xc6) {
            throw expected("octets", format);
        }
        position++;
        int length = length(1 << format - 0xc4);
        need(length);
        position += length;
        return Arrays.copyOfRange(octets, position - length, position);
    }

    /** How many values follow as the items of an array; never more than there are octets left. */
    int readArray() throws MalformedException, CommandException {
        int format = peek();
        boolean isShort = (format & 0xf0) == 0x90;
        if (!isShort && format != 0xdc && format != 0xdd) {
            throw expected("an array", format);
        }
        position++;
        int length = isShort ? format & 0x0f : length(2 << format - 0xdc);
        need(length);
        return length;
    }

    /** Begins an array of exactly {@code length} items, which are {@code what}. */
    void readArray(int length, String what) throws MalformedException, CommandException {
        int found = readArray();
        if (found != length) {
            throw new CommandException(what + " has " + length + " fields, not " + found);
        }
    }

    /** How many pairs of values follow as a map; never more than there are octets left. */
    int readMap() throws MalformedException, CommandException {
        int format = peek();
        boolean isShort = (format & 0xf0) == 0x80;
        if (!isShort && format != 0xde && format != 0xdf) {
            throw expected("a map", format);
        }
        position++;
        int pairs = isShort ? format & 0x0f : length(2 << format - 0xde);
        need(pairs);
        return pairs;
    }

    /** Goes behind the value that begins at {@code start}, whatever was read of it. */
    void skipFrom(int start) throws MalformedException {
        position = start;
        long values = 1;
        while (values > 0) {
            values += skipHeader() - 1;
            // Each value takes an octet at least: a length that promises more than is there is refused before
            // it is followed.
            if (values > octets.length - position) {
                throw new MalformedException(position, "ends within an array or a map");
            }
        }
    }

    /** Goes behind the next value, or, of an array or a map, behind its header; how many values are in it. */
    private long skipHeader() throws MalformedException {
        int format = peek();
        position++;
        if (format < 0x80 || format >= 0xe0) {
            return 0;
        }
        if (format < 0x90) {
            return 2L * (format & 0x0f);
        }
        if (format < 0xa0) {
            return format & 0x0f;
        }
        if (format < 0xc0) {
            return skipOctets(format & 0x1f);
        }
        switch (format) {
            case 0xc0: case 0xc2: case 0xc3:
                return 0;
            case 0xc4: case 0xc5: case 0xc6:
                return skipOctets(length(1 << format - 0xc4));
            case 0xd9: case 0xda: case 0xdb:
                return skipOctets(length(1 << format - 0xd9));
            case 0xca:
                return skipOctets(4);
            case 0xcb:
                return skipOctets(8);
            case 0xcc: case 0xcd: case 0xce: case 0xcf:
                return skipOctets(1 << format - 0xcc);
            case 0xd0: case 0xd1: case 0xd2: case 0xd3:
                return skipOctets(1 << format - 0xd0);
            case 0xdc: case 0xdd:
                return length(2 << format - 0xdc);
            case 0xde: case 0xdf:
                return 2L * length(2 << format - 0xde);
            default:
                throw new MalformedException(
                    position - 1, "format 0x" + Integer.toHexString(format) + " is not used here");
        }
    }

    private long skipOctets(int length) throws MalformedException {
        need(length);
        position += length;
        return 0;
    }

    private int peek() throws MalformedException {
        need(1);
        return octets[position] & 0xff;
    }

    private void need(int length) throws MalformedException {
        int left = octets.length - position;
        if (length > left) {
            throw new MalformedException(position, length + " more octets expected, there are " + left);
        }
    }

    /** The number in the next octets, of which there are 8 at most. */
    private long unsigned(int width) throws MalformedException {
        need(width);
        long value = 0;
        for (int end = position + width; position < end; position++) {
            value = value << 8 | octets[position] & 0xff;
        }
        return value;
    }

    private static boolean isInteger(int format) {
        return format < 0x80 || format >= 0xe0 || format >= 0xcc && format <= 0xd3;
    }

    /** The value of an integer whose format octet is behind us; an unsigned one of 64 bits may come out negative. */
    private long integer(int format) throws MalformedException {
        switch (format) {
            case 0xcc: return unsigned(1);
            case 0xcd: return unsigned(2);
            case 0xce: return unsigned(4);
            case 0xcf: case 0xd3: return unsigned(8);
            case 0xd0: return (byte) unsigned(1);
            case 0xd1: return (short) unsigned(2);
            case 0xd2: return (int) unsigned(4);
            default: return (byte) format;
        }
    }

    /** A length written in 1, 2 or 4 octets. */
    private int length(int width) throws MalformedException {
        int length = (int) unsigned(width);
        if (length < 0) {
            throw new MalformedException(position - width, "a length above 2^31-1");
        }
        return length;
    }

    private static CommandException expected(String what, int format) {
        return new CommandException("expected " + what + ", found format 0x" + Integer.toHexString(format));
    }
}
