package amqp.gateway.jmx;

import java.util.HashMap;
import java.util.Map;

/**
 * A pattern with wildcards, held against texts in a time that is proportional to their length.
 *
 * <p>JDK's {@code Query.match} tries each place of each star, which takes for ever with a few of them. Here all places
 * that a text may have reached in the pattern are the bits of a number, which each character moves on at once: 64
 * places of a pattern cost as much as one, and no place is tried twice.
 */
final class Wildcards {
    private static final int BITS = 64;
    /** Characters for which it is remembered which places take them. */
    private static final int MAX_REMEMBERED = 256;
    /** So many steps are made between two looks at the clock. */
    private static final int STEPS = 4096;

    // What a place takes, if not the class that begins at an index of the pattern.
    private static final int ITSELF = -1;
    private static final int ANY = -2;
    private static final int NOTHING = -3;

    private final String pattern;
    /** What each place takes. */
    private final int[] takes;
    private final char[] characters;
    private final int places;
    /** Bits of places before which there is a star. */
    private final long[] stars;
    /** The pattern ends within the beginning of a class, at which the JDK fails if a text gets so far. */
    private boolean isBroken;
    private final Map<Character, long[]> taken = new HashMap<>();
    private int steps;

    private Wildcards(String pattern, boolean hasClasses) {
        this.pattern = pattern;
        takes = new int[pattern.length()];
        characters = new char[pattern.length()];
        stars = new long[pattern.length() / BITS + 1];
        int place = 0;
        for (int index = 0; index < pattern.length(); index++) {
            char next = pattern.charAt(index);
            if (next == '*') {
                stars[place / BITS] |= 1L << place;
                continue;
            }
            takes[place] = next == '?' ? ANY : ITSELF;
            if (hasClasses && next == '\\') {
                index++;
                takes[place] = index < pattern.length() ? ITSELF : NOTHING;
            } else if (hasClasses && next == '[') {
                takes[place] = index + 1;
                index = endOfClass(index + 1);
                if (index == pattern.length()) {
                    takes[place] = NOTHING;
                }
            }
            characters[place++] = index < pattern.length() ? pattern.charAt(index) : 0;
        }
        places = place;
    }

    /** As {@code Query.match} has it: with classes of characters, which can be negated, and a backslash. */
    static Wildcards ofQuery(String pattern) {
        return new Wildcards(pattern, true);
    }

    /** As names of MBeans have it: asterisk and question mark. */
    static Wildcards ofName(String pattern) {
        return new Wildcards(pattern, false);
    }

    /** The index of the bracket that ends a class; the length of the pattern where none does. */
    private int endOfClass(int start) {
        int index = start;
        if (index < pattern.length() && pattern.charAt(index) == '!') {
            index++;
        }
        isBroken = index >= pattern.length();
        while (index < pattern.length() && pattern.charAt(index) != ']') {
            index++;
            if (index < pattern.length() && isRange(index)) {
                index++;
            }
        }
        return Math.min(index, pattern.length());
    }

    private boolean isRange(int index) {
        return pattern.charAt(index) == '-' && index + 1 < pattern.length() && pattern.charAt(index + 1) != ']';
    }

    private boolean isInClass(int start, char character) {
        boolean isWanted = pattern.charAt(start) != '!';
        boolean isSeen = false;
        for (int index = isWanted ? start : start + 1; pattern.charAt(index) != ']';) {
            char first = pattern.charAt(index++);
            if (isRange(index)) {
                isSeen |= character >= first && character <= pattern.charAt(index + 1);
                index++;
            } else {
                isSeen |= character == first;
            }
        }
        return isSeen == isWanted;
    }

    /**
     * Whether the whole text matches.
     *
     * @throws Expression.UnfitException the JDK fails with this text
     */
    boolean matches(String text, Deadline deadline) throws Expression.UnfitException, RefusedQueryException {
        long[] reached = new long[stars.length];
        reached[0] = 1;
        for (int index = 0; index < text.length(); index++) {
            if (isBroken && isSet(reached, places - 1)) {
                throw Expression.UNFIT;
            }
            long[] taking = taking(text.charAt(index), deadline);
            long carried = 0;
            for (int word = 0; word < reached.length; word++) {
                long moved = reached[word] & taking[word];
                reached[word] = reached[word] & stars[word] | moved << 1 | carried;
                carried = moved >>> BITS - 1;
            }
            count(reached.length, deadline);
        }
        return isSet(reached, places);
    }

    private static boolean isSet(long[] bits, int bit) {
        return (bits[bit / BITS] >>> bit & 1) != 0;
    }

    /** Bits of the places that take a character. */
    private long[] taking(char character, Deadline deadline) throws RefusedQueryException {
        long[] known = taken.get(character);
        if (known != null) {
            return known;
        }
        long[] bits = new long[stars.length];
        for (int place = 0; place < places; place++) {
            if (takes(place, character)) {
                bits[place / BITS] |= 1L << place;
            }
        }
        count(pattern.length(), deadline);
        if (taken.size() == MAX_REMEMBERED) {
            taken.clear();
        }
        taken.put(character, bits);
        return bits;
    }

    private boolean takes(int place, char character) {
        switch (takes[place]) {
            case ITSELF:
                return characters[place] == character;
            case ANY:
                return true;
            case NOTHING:
                return false;
            default:
                return isInClass(takes[place], character);
        }
    }

    private void count(int more, Deadline deadline) throws RefusedQueryException {
        steps += more;
        if (steps >= STEPS) {
            steps = 0;
            deadline.check();
        }
    }
}
