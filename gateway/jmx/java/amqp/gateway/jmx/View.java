package amqp.gateway.jmx;

/** What a reader sees of an object at one moment: its values, and whether they are fresh. */
final class View {
    final ManagedObject object;
    private final Object[] values;
    private final boolean isStale;
    private final boolean isWithheld;
    private final boolean isAbandoned;

    View(ManagedObject object, Object[] values, Group group) {
        this.object = object;
        this.values = values;
        this.isStale = group.isStale();
        this.isWithheld = group.isWithheld();
        this.isAbandoned = group.isAbandoned();
    }

    /** The value at a position of the object's class that can be read; null where it is absent or withheld. */
    Object value(int position) {
        if (position == ClassDefinition.STALE_POSITION) {
            return isStale;
        }
        AttributeDefinition attribute = object.definition.attribute(position);
        if (attribute.whenAbandoned != null && isAbandoned) {
            return attribute.whenAbandoned;
        }
        return !isWithheld || attribute.always ? values[position] : null;
    }
}
