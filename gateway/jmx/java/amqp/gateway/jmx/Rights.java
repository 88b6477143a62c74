package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Objects;
import javax.management.MBeanInfo;

/** What exists of the objects of a class for a user; several users share it. */
final class Rights {
    final ClassDefinition definition;
    /** Positions of attributes, and operations in their order; null for all. */
    private final BitSet reads;
    private final BitSet writes;
    private final BitSet operations;
    private final MBeanInfo info;

    Rights(ClassDefinition definition, BitSet reads, BitSet writes, BitSet operations) {
        this.definition = definition;
        this.reads = reads;
        this.writes = writes;
        this.operations = operations;
        this.info = definition.info(this);
    }

    /** Whether these are the rights to so much. */
    boolean are(BitSet otherReads, BitSet otherWrites, BitSet otherOperations) {
        return Objects.equals(reads, otherReads) && Objects.equals(writes, otherWrites)
            && Objects.equals(operations, otherOperations);
    }

    MBeanInfo info() {
        return info;
    }

    /** Whether the attribute at a position is shown, if it can be read at all. */
    boolean reads(int position) {
        return includes(reads, position);
    }

    boolean writes(int position) {
        return includes(writes, position);
    }

    boolean invokes(int operation) {
        return includes(operations, operation);
    }

    private static boolean includes(BitSet set, int position) {
        return set == null || position < 0 || set.get(position);
    }

    /** Where the value of an attribute is that exists and can be read; null where there is none of that name. */
    Integer readablePosition(String name) {
        Integer position = definition.readablePosition(name);
        return position != null && reads(position) ? position : null;
    }

    /** Whether there is an attribute of that name. */
    boolean hasAttribute(String name) {
        return readablePosition(name) != null
            || definition.isWritable(name) && writes(definition.position(name));
    }

    /**
     * Whether the gateway's core is asked to set the attribute, if the user wants it.
     *
     * <p>It says why the policy refuses that, and records it; of an attribute that is hidden there is nothing to say.
     */
    boolean isSettable(String name) {
        return definition.isWritable(name)
            && (reads(definition.position(name)) || writes(definition.position(name)));
    }

    /** The names of the attributes that can be read and have values of their own, in their order. */
    List<String> readable() {
        List<String> names = new ArrayList<>();
        for (String name : definition.readable()) {
            if (reads(definition.position(name))) {
                names.add(name);
            }
        }
        return names;
    }
}
