package amqp.gateway.jmx;

/**
 * Which classes clients may send, as patterns of {@code java.io.ObjectInputFilter}; all others are refused
 * before an object of theirs is made.
 */
final class SerialFilters {
    private static final String LIMITS = "maxdepth=20;maxrefs=20000;maxarray=1048576;maxbytes=1048576;";

    /** User and password. */
    static final String CREDENTIALS = "maxdepth=3;maxrefs=10;maxarray=10;maxbytes=16384;java.lang.String;!*";

    /** What the methods of a connection take: names, filters, queries, and values of open types. */
    static final String REQUESTS = LIMITS + String.join(";",
        "java.lang.Boolean", "java.lang.Byte", "java.lang.Character", "java.lang.Double", "java.lang.Float",
        "java.lang.Integer", "java.lang.Long", "java.lang.Number", "java.lang.Object", "java.lang.Short",
        "java.lang.String", "java.math.BigDecimal", "java.math.BigInteger", "java.rmi.MarshalledObject",
        "java.util.ArrayList", "java.util.Date", "java.util.HashSet", "java.util.Vector",
        // List.of and Map.of: no attribute takes them, but a client that sends them gets a clear answer.
        "java.util.CollSer", "java.util.ImmutableCollections*",
        // Maps that are written: a table of texts, and what it is made of.
        "java.util.Arrays$ArrayList", "java.util.Collections$UnmodifiableCollection",
        "java.util.Collections$UnmodifiableList", "java.util.Collections$UnmodifiableRandomAccessList",
        "java.util.HashMap", "java.util.LinkedHashMap", "java.util.Map$Entry", "java.util.TreeMap",
        "javax.management.openmbean.CompositeDataSupport", "javax.management.openmbean.CompositeType",
        "javax.management.openmbean.OpenType", "javax.management.openmbean.SimpleType",
        "javax.management.openmbean.TabularDataSupport", "javax.management.openmbean.TabularType",
        // A client without a delegated subject sends an empty place for one, which is of this class.
        "javax.security.auth.Subject",
        "javax.management.Attribute", "javax.management.AttributeChangeNotificationFilter",
        "javax.management.AttributeList", "javax.management.NotificationFilterSupport",
        "javax.management.ObjectName", "javax.management.relation.MBeanServerNotificationFilter",
        "javax.management.AndQueryExp", "javax.management.AttributeValueExp",
        "javax.management.BetweenQueryExp", "javax.management.BinaryOpValueExp",
        "javax.management.BinaryRelQueryExp", "javax.management.BooleanValueExp",
        "javax.management.ClassAttributeValueExp", "javax.management.InQueryExp",
        "javax.management.InstanceOfQueryExp", "javax.management.MatchQueryExp",
        "javax.management.NotQueryExp", "javax.management.NumericValueExp",
        "javax.management.OrQueryExp", "javax.management.QualifiedAttributeValueExp",
        "javax.management.QueryEval", "javax.management.StringValueExp",
        "!*");

    private SerialFilters() {
    }
}
