package amqp.gateway.jmx;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.management.MBeanOperationInfo;
import javax.management.openmbean.CompositeDataSupport;
import javax.management.openmbean.CompositeType;
import javax.management.openmbean.OpenDataException;
import javax.management.openmbean.OpenMBeanOperationInfo;
import javax.management.openmbean.OpenMBeanOperationInfoSupport;
import javax.management.openmbean.OpenMBeanParameterInfo;
import javax.management.openmbean.OpenType;
import javax.management.openmbean.SimpleType;

/** An operation of a class. */
final class OperationDefinition {
    final String name;
    /** Its place in the definition of the class. */
    int number;
    private final String description;
    private final boolean readsOnly;
    private final ParameterDefinition[] parameters;
    private final String[] resultNames;
    private final AttributeType[] resultTypes;
    private final OpenType<?> returned;

    private OperationDefinition(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(5, "an operation");
        name = reader.readString();
        description = reader.readString();
        readsOnly = reader.readBoolean();
        List<ParameterDefinition> all = new ArrayList<>();
        for (int left = reader.readArray(); left > 0; left--) {
            all.add(ParameterDefinition.read(reader));
        }
        parameters = all.toArray(new ParameterDefinition[0]);
        resultNames = new String[reader.readArray()];
        resultTypes = new AttributeType[resultNames.length];
        String[] texts = new String[resultNames.length];
        for (int result = 0; result < resultNames.length; result++) {
            reader.readArray(3, "a result");
            resultNames[result] = reader.readString();
            resultTypes[result] = AttributeType.read(reader.readLong());
            texts[result] = reader.readString();
        }
        returned = returned(texts);
    }

    static OperationDefinition read(MessageReader reader) throws MalformedException, CommandException {
        return new OperationDefinition(reader);
    }

    private OpenType<?> returned(String[] texts) throws CommandException {
        if (resultTypes.length == 0) {
            return SimpleType.VOID;
        }
        if (resultTypes.length == 1) {
            return resultTypes[0].openType;
        }
        OpenType<?>[] types = Arrays.stream(resultTypes).map(type -> type.openType).toArray(OpenType<?>[]::new);
        try {
            return new CompositeType(name, "what " + name + " returns", resultNames, texts, types);
        } catch (OpenDataException | IllegalArgumentException error) {
            throw new CommandException("the results of operation " + name + ": " + error.getMessage());
        }
    }

    /** How many parameters it has. */
    int size() {
        return parameters.length;
    }

    /** The name of the parameter at that place. */
    String parameter(int place) {
        return parameters[place].name();
    }

    /** The classes of its parameters, in their order. */
    String[] signature() {
        return Arrays.stream(parameters).map(each -> each.type.openType.getClassName()).toArray(String[]::new);
    }

    /** What clients are shown of it. */
    OpenMBeanOperationInfo toInfo() {
        OpenMBeanParameterInfo[] shown =
            Arrays.stream(parameters).map(ParameterDefinition::toInfo).toArray(OpenMBeanParameterInfo[]::new);
        return new OpenMBeanOperationInfoSupport(
            name, description.isBlank() ? name : description, shown, returned,
            readsOnly ? MBeanOperationInfo.INFO : MBeanOperationInfo.ACTION);
    }

    /** What a client gets, from the array of results that comes next. */
    Object readResult(MessageReader reader) throws MalformedException, CommandException {
        reader.readArray(resultTypes.length, "the array of results");
        Object[] values = new Object[resultTypes.length];
        for (int result = 0; result < values.length; result++) {
            values[result] = reader.skipNil() ? null : resultTypes[result].read(reader);
        }
        if (values.length < 2) {
            return values.length == 0 ? null : values[0];
        }
        try {
            return new CompositeDataSupport((CompositeType) returned, resultNames, values);
        } catch (OpenDataException error) {
            throw new CommandException("the results of operation " + name + ": " + error.getMessage());
        }
    }
}
