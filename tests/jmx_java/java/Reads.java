import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.MBeanInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;

/** Reads of several attributes in one call. */
final class Reads {
    private Reads() {}

    static List<String> attributes(MBeanServerConnection connection, String name, List<String> attributes)
            throws Exception {
        List<String> found = new ArrayList<>();
        for (Attribute attribute :
                connection.getAttributes(new ObjectName(name), attributes.toArray(new String[0])).asList()) {
            found.add(attribute.getName() + "=" + Client.describe(attribute.getValue()));
        }
        return found;
    }

    /** The different answers to so many calls, one after the other. */
    static List<String> different(
            MBeanServerConnection connection, String name, List<String> attributes, int calls) throws Exception {
        TreeSet<String> found = new TreeSet<>();
        for (int call = 0; call < calls; call++) {
            found.add(attributes(connection, name, attributes).toString());
        }
        return new ArrayList<>(found);
    }

    static String describe(MBeanInfo info) {
        return info.getClass().getSimpleName() + " "
            + Arrays.toString(Arrays.stream(info.getAttributes()).map(each -> each.getName()).toArray());
    }
}
