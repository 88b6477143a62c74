package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;
import javax.management.openmbean.TabularData;
import javax.management.openmbean.TabularDataSupport;
import javax.management.openmbean.TabularType;

/** Makes what a client gets of a {@link Table}: rows of these columns, as many as take a bounded size. */
final class Page {
    /** The column that is the index of the rows; no attribute has this name. */
    static final String OBJECT_NAME = "ObjectName";
    /** Estimated octets of the values of a page, unless one row has more. */
    static final int MAX_OCTETS = 2 * 1024 * 1024;

    private static final int ROW_OCTETS = 64;
    private static final int VALUE_OCTETS = 16;
    private static final String[] ITEMS = {"rows", "next", "total"};
    private static final String[] ITEM_TEXTS = {
        "The objects, by the column ObjectName.",
        "What to give as from for the next page; null behind the last object.",
        "How many objects there are.",
    };

    private final Map<String, AttributeDefinition> columns;
    private final String[] names;
    private final CompositeType rowType;
    private final TabularType rowsType;
    private final CompositeType type;

    /** The columns are attributes by their names; the object's name comes before them, {@code Stale} behind. */
    Page(Map<String, AttributeDefinition> columns) {
        this.columns = columns;
        List<String> all = new ArrayList<>(List.of(OBJECT_NAME));
        List<OpenType<?>> types = new ArrayList<>(List.of(SimpleType.STRING));
        columns.forEach((name, attribute) -> {
            all.add(name);
            types.add(attribute.type.openType);
        });
        all.add(ClassDefinition.STALE);
        types.add(SimpleType.BOOLEAN);
        names = all.toArray(new String[0]);
        try {
            rowType = new CompositeType("object", "An object.", names, names, types.toArray(new OpenType<?>[0]));
            rowsType = new TabularType("objects", "Objects by name.", rowType, new String[] {OBJECT_NAME});
            OpenType<?>[] itemTypes = {rowsType, SimpleType.STRING, SimpleType.LONG};
            type = new CompositeType("page", "A page of objects.", ITEMS, ITEM_TEXTS, itemTypes);
        } catch (OpenDataException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * The page of these objects, or of the first of them.
     *
     * @param viewer who sees it
     * @param isLast whether no object follows them
     * @param total how many objects there are
     */
    CompositeData of(Viewer viewer, List<View> views, boolean isLast, long total) {
        TabularDataSupport rows = new TabularDataSupport(rowsType, Math.max(1, views.size() * 4 / 3), 0.75f);
        ObjectName last = null;
        long octets = 0;
        try {
            for (View view : views) {
                Object[] values = row(viewer, view);
                octets += ROW_OCTETS;
                for (Object value : values) {
                    octets += octets(value);
                }
                if (octets > MAX_OCTETS && last != null) {
                    return page(rows, last, total);
                }
                rows.put(new CompositeDataSupport(rowType, names, values));
                last = view.object.name;
            }
            return page(rows, isLast ? null : last, total);
        } catch (OpenDataException error) {
            throw new IllegalStateException(error);
        }
    }

    private CompositeData page(TabularData rows, ObjectName next, long total) throws OpenDataException {
        return new CompositeDataSupport(type, ITEMS, new Object[] {rows, next == null ? null : next.toString(), total});
    }

    private Object[] row(Viewer viewer, View view) {
        Rights rights = view.rights(viewer.user);
        Object[] values = new Object[names.length];
        int column = 0;
        values[column++] = view.object.name.toString();
        for (Map.Entry<String, AttributeDefinition> entry : columns.entrySet()) {
            Integer position = rights == null ? null : rights.readablePosition(entry.getKey());
            values[column++] = position == null ? null : viewer.shown(view.value(position));
        }
        values[column] = view.value(ClassDefinition.STALE_POSITION);
        return values;
    }

    /** About as many as the value takes in an answer. */
    private static long octets(Object value) {
        if (value instanceof String) {
            return VALUE_OCTETS + ((String) value).length();
        }
        if (value instanceof ObjectName) {
            return VALUE_OCTETS + ((ObjectName) value).getCanonicalName().length();
        }
        if (value instanceof byte[]) {
            return VALUE_OCTETS + ((byte[]) value).length;
        }
        if (value instanceof String[]) {
            return octetsOfAll(List.of((String[]) value));
        }
        if (value instanceof TabularData) {
            long octets = VALUE_OCTETS;
            for (Object row : ((TabularData) value).values()) {
                octets += ROW_OCTETS + octetsOfAll(((CompositeData) row).values());
            }
            return octets;
        }
        return VALUE_OCTETS;
    }

    private static long octetsOfAll(Iterable<?> values) {
        long octets = VALUE_OCTETS;
        for (Object value : values) {
            octets += octets(value);
        }
        return octets;
    }
}
