package amqp.gateway.jmx;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenType;

/** Makes the data of events, and shares what those of a kind with the same items have in common. */
final class EventTypes {
    private static final int MAX_TYPES = 1000;

    // In the order of use, so that the bound drops what was not used for longest.
    private final Map<String, Shared> types = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Shared> eldest) {
            return size() > MAX_TYPES;
        }
    };

    /** The type, and the items' names in their order. */
    private static final class Shared {
        private final CompositeType type;
        private final String[] names;

        Shared(CompositeType type, String[] names) {
            this.type = type;
            this.names = names;
        }
    }

    /** The data of an event of that type; null where there are no items, which no composite type can be without. */
    CompositeData data(String eventType, String[] names, AttributeType[] itemTypes, Object[] values)
            throws CommandException {
        if (names.length == 0) {
            return null;
        }
        try {
            String key = eventType + Arrays.toString(names) + Arrays.toString(itemTypes);
            Shared shared = types.get(key);
            if (shared == null) {
                shared = new Shared(compositeType(eventType, names, itemTypes), names);
                types.put(key, shared);
            }
            return new CompositeDataSupport(shared.type, shared.names, values);
        } catch (OpenDataException | IllegalArgumentException error) {
            throw new CommandException("the items of event " + eventType + ": " + error.getMessage());
        }
    }

    private static CompositeType compositeType(String eventType, String[] names, AttributeType[] itemTypes)
            throws OpenDataException {
        OpenType<?>[] openTypes = Arrays.stream(itemTypes).map(type -> type.openType).toArray(OpenType<?>[]::new);
        return new CompositeType(eventType, "what is known of the event", names, names, openTypes);
    }
}
