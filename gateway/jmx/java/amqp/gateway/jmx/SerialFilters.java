package amqp.gateway.jmx;

import java.io.ObjectInputFilter;

/**
 * Which classes clients may send, as patterns of {@code java.io.ObjectInputFilter}; all others are refused
 * before an object of theirs is made.
 *
 * <p>The limits are of one stream. {@link RequestFilter} adds the arrays of all streams of a request up.
 */
final class SerialFilters {
    /** User and password. */
    static final ObjectInputFilter CREDENTIALS = ObjectInputFilter.Config.createFilter(
        "maxdepth=3;maxrefs=10;maxarray=10;maxbytes=16384;java.lang.String;!*");

    /** Sizes of queries; their classes {@link QueryReader} knows. */
    static final ObjectInputFilter QUERY = ObjectInputFilter.Config.createFilter(
        "maxdepth=250;maxrefs=5000;maxarray=1000;maxbytes=65536");

    /** What a client may send to the registry, beside texts: nothing. Whoever binds an object would replace the connector. */
    static final String REGISTRY = "!*";

    /** What a client may send to the collector of remote objects, beside its own few classes, which Java adds. */
    static final String COLLECTOR = "maxdepth=5;maxrefs=1000;maxarray=256;maxbytes=16384";

    /** A part of a request, with what may be in it. */
    enum Part {
        /**
         * What the methods of a connection take. Values, queries and filters are octets here (in {@code
         * MarshalledObject}): a collection in their place could have any hash code, which is never computed.
         */
        REQUEST("maxdepth=5;maxrefs=20000;maxarray=1048576;maxbytes=1048576", ""
            + "java.lang.Integer;java.lang.Number;java.lang.String;java.rmi.MarshalledObject;"
            // A client without a delegated subject sends an empty place for one, which is of this class.
            + "javax.security.auth.Subject;javax.management.ObjectName"),

        /** Filters of notifications. */
        NOTIFICATION_FILTER("maxdepth=6;maxrefs=1000;maxarray=1000;maxbytes=16384", ""
            + "java.lang.Object;java.lang.String;java.util.List;java.util.Vector;javax.management.ObjectName;"
            + "javax.management.AttributeChangeNotificationFilter;javax.management.NotificationFilterSupport;"
            + "javax.management.relation.MBeanServerNotificationFilter"),

        /** What is asked of a {@link Table}, and of {@link PastEvents}, from anybody. */
        PAGE_REQUEST("maxdepth=4;maxrefs=1000;maxarray=1000;maxbytes=65536", ""
            + "java.lang.Integer;java.lang.Long;java.lang.Number;java.lang.Object;java.lang.String"),

        /** Values of attributes and parameters, from users who may change something. */
        VALUE("maxdepth=20;maxrefs=20000;maxarray=1048576;maxbytes=1048576", ""
            + "java.lang.Boolean;java.lang.Byte;java.lang.Character;java.lang.Double;java.lang.Float;"
            + "java.lang.Integer;java.lang.Long;java.lang.Number;java.lang.Object;java.lang.Short;java.lang.String;"
            + "java.math.BigDecimal;java.math.BigInteger;"
            + "java.util.ArrayList;java.util.Date;java.util.HashSet;java.util.Vector;"
            // List.of and Map.of: no attribute takes them, but a client that sends them gets a clear answer.
            + "java.util.CollSer;java.util.ImmutableCollections*;"
            // Maps that are written: a table of texts, and what it is made of.
            + "java.util.Arrays$ArrayList;java.util.Collections$UnmodifiableCollection;"
            + "java.util.Collections$UnmodifiableList;java.util.Collections$UnmodifiableRandomAccessList;"
            + "java.util.HashMap;java.util.LinkedHashMap;java.util.Map$Entry;java.util.TreeMap;"
            + "javax.management.Attribute;javax.management.AttributeList;javax.management.ObjectName;"
            + "javax.management.openmbean.CompositeDataSupport;javax.management.openmbean.CompositeType;"
            + "javax.management.openmbean.OpenType;javax.management.openmbean.SimpleType;"
            + "javax.management.openmbean.TabularDataSupport;javax.management.openmbean.TabularType");

        final ObjectInputFilter filter;

        Part(String limits, String classes) {
            filter = ObjectInputFilter.Config.createFilter(limits + ";" + classes + ";!*");
        }
    }

    private SerialFilters() {
    }

    /**
     * Why a filter refuses something, for people.
     *
     * @param what it is part of
     */
    static String reason(ObjectInputFilter.FilterInfo info, String what) {
        Class<?> type = info.serialClass();
        return type == null || type.isArray() ? "a " + what + " is too large, or too deeply nested"
            : "the class " + type.getName() + " is not permitted, or the " + what + " is too large";
    }
}
