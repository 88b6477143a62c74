package amqp.gateway.jmx;

/** What a reader sees of an object at one moment: its values, and whether they are fresh. */
final class View {
    final ManagedObject object;
    private final ManagedObject.State state;
    private final boolean isStale;
    private final boolean isWithheld;
    private final boolean isAbandoned;

    View(ManagedObject object, ManagedObject.State state) {
        this.object = object;
        this.state = state;
        this.isStale = state.group.isStale();
        this.isWithheld = state.group.isWithheld();
        this.isAbandoned = state.group.isAbandoned();
    }

    /** The rights of a user, by which positions are found; null where the object does not exist for that user. */
    Rights rights(int user) {
        return state.access.of(user);
    }

    /** The value at a position of the object's class that can be read; null where it is absent or withheld. */
    Object value(int position) {
        if (position == ClassDefinition.STALE_POSITION) {
            return isStale;
        }
        AttributeDefinition attribute = state.definition().attribute(position);
        if (attribute.whenAbandoned != null && isAbandoned) {
            return attribute.whenAbandoned;
        }
        return !isWithheld || attribute.always ? state.values[position] : null;
    }
}
