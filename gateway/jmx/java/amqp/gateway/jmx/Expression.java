package amqp.gateway.jmx;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A node of a query: a class of ours in the place of the JDK's of the same name.
 *
 * <p>The JDK's nodes have no bounds within: a sum of texts doubles them, a pattern is tried at each place. So what a
 * client sends is read into these ({@link QueryReader}), whose serial form is the JDK's: simple name of the class,
 * version, and names of fields. What they evaluate to is the JDK's, too, for each value that a query can have.
 */
// The classes of nodes are in one file because each is a few lines, and nothing else uses it.
abstract class Expression implements Serializable {
    private static final long serialVersionUID = 1L;

    /** For each place where the JDK's evaluation throws, which makes a query false for the MBean. */
    static final UnfitException UNFIT = new UnfitException();

    /** As many characters a text may have that is made of others. */
    static final int MAX_TEXT = 1 << 16;

    /** A client's classes by the names that the JDK has for them. */
    static final Map<String, Class<?>> BY_NAME = Stream.of(
            AndQueryExp.class, AttributeValueExp.class, BetweenQueryExp.class, BinaryOpValueExp.class,
            BinaryRelQueryExp.class, BooleanValueExp.class, ClassAttributeValueExp.class, InQueryExp.class,
            InstanceOfQueryExp.class, MatchQueryExp.class, NotQueryExp.class, NumericValueExp.class, OrQueryExp.class,
            QualifiedAttributeValueExp.class, QueryEval.class, StringValueExp.class)
        .collect(Collectors.toUnmodifiableMap(type -> "javax.management." + type.getSimpleName(), Function.identity()));
    static final String VALUES_NAME = "[Ljavax.management.ValueExp;";
    static final Class<?> VALUES = ValueExp[].class;

    /** The query cannot be applied to the MBean. */
    static final class UnfitException extends Exception {
        private static final long serialVersionUID = 1L;

        private UnfitException() {
            super("the query does not fit", null, false, false);
        }
    }

    /** What it consists of; an item may be null. */
    List<? extends Expression> parts() {
        return List.of();
    }

    /** How many characters it has itself. */
    int length() {
        return 0;
    }

    static int lengthOf(String text) {
        return text == null ? 0 : text.length();
    }
}

/** In the JDK what some nodes have above them. */
abstract class QueryEval implements Serializable {
    private static final long serialVersionUID = 2675899265640874796L;
}

final class AndQueryExp extends Condition {
    private static final long serialVersionUID = -1081892073854801359L;
    private Condition exp1;
    private Condition exp2;

    @Override
    List<? extends Expression> parts() {
        return Arrays.asList(exp1, exp2);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        return one.isTrue(exp1) && one.isTrue(exp2);
    }
}

final class OrQueryExp extends Condition {
    private static final long serialVersionUID = 2962973084421716523L;
    private Condition exp1;
    private Condition exp2;

    @Override
    List<? extends Expression> parts() {
        return Arrays.asList(exp1, exp2);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        return one.isTrue(exp1) || one.isTrue(exp2);
    }
}

final class NotQueryExp extends Condition {
    private static final long serialVersionUID = 5269643775896723397L;
    private Condition exp;

    @Override
    List<? extends Expression> parts() {
        return Collections.singletonList(exp);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        return !one.isTrue(exp);
    }
}

final class BetweenQueryExp extends Condition {
    private static final long serialVersionUID = -2933597532866307444L;
    private ValueExp exp1;
    private ValueExp exp2;
    private ValueExp exp3;

    @Override
    List<? extends Expression> parts() {
        return Arrays.asList(exp1, exp2, exp3);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        ValueExp checked = one.value(exp1);
        ValueExp low = one.value(exp2);
        ValueExp high = one.value(exp3);
        if (checked instanceof NumericValueExp) {
            NumericValueExp number = (NumericValueExp) checked;
            NumericValueExp lowest = (NumericValueExp) low;
            NumericValueExp highest = (NumericValueExp) high;
            if (number.isLong()) {
                return lowest.asLong() <= number.asLong() & number.asLong() <= highest.asLong();
            }
            return lowest.asDouble() <= number.asDouble() & number.asDouble() <= highest.asDouble();
        }
        String text = ((StringValueExp) checked).text();
        String first = ((StringValueExp) low).text();
        String last = ((StringValueExp) high).text();
        return first.compareTo(text) <= 0 && text.compareTo(last) <= 0;
    }
}

final class InQueryExp extends Condition {
    private static final long serialVersionUID = -5801329450358952434L;
    private ValueExp val;
    private ValueExp[] valueList;

    @Override
    List<? extends Expression> parts() {
        return Stream.concat(Stream.of(val), valueList == null ? Stream.of() : Stream.of(valueList))
            .collect(Collectors.toList());
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        if (valueList == null) {
            return false;
        }
        ValueExp checked = one.value(val);
        for (ValueExp each : valueList) {
            ValueExp other = one.value(each);
            boolean isEqual = checked instanceof NumericValueExp
                ? ((NumericValueExp) other).asDouble() == ((NumericValueExp) checked).asDouble()
                : ((StringValueExp) other).text().equals(((StringValueExp) checked).text());
            if (isEqual) {
                return true;
            }
        }
        return false;
    }
}

final class MatchQueryExp extends Condition {
    private static final long serialVersionUID = -7156603696948215014L;
    private AttributeValueExp exp;
    private String pattern;
    private transient Wildcards wildcards;

    @Override
    List<? extends Expression> parts() {
        return Collections.singletonList(exp);
    }

    @Override
    int length() {
        return lengthOf(pattern);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        ValueExp value = one.value(exp);
        if (!(value instanceof StringValueExp)) {
            return false;
        }
        if (wildcards == null) {
            wildcards = Wildcards.ofQuery(pattern);
        }
        return wildcards.matches(((StringValueExp) value).text(), one.deadline);
    }
}

final class InstanceOfQueryExp extends Condition {
    private static final long serialVersionUID = -1081892073854801359L;
    private StringValueExp classNameValue;

    @Override
    List<? extends Expression> parts() {
        return Collections.singletonList(classNameValue);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        return one.isInstanceOf(((StringValueExp) one.value(classNameValue)).text());
    }
}

final class BinaryRelQueryExp extends Condition {
    private static final long serialVersionUID = -5690656271650491000L;
    private int relOp;
    private ValueExp exp1;
    private ValueExp exp2;

    @Override
    List<? extends Expression> parts() {
        return Arrays.asList(exp1, exp2);
    }

    @Override
    boolean isTrue(Candidate one) throws UnfitException, RefusedQueryException {
        ValueExp left = one.value(exp1);
        ValueExp right = one.value(exp2);
        if (left instanceof NumericValueExp) {
            NumericValueExp first = (NumericValueExp) left;
            NumericValueExp second = (NumericValueExp) right;
            return first.isLong() ? isTrue(Long.compare(first.asLong(), second.asLong()))
                : isTrue(first.asDouble(), second.asDouble());
        }
        if (left instanceof BooleanValueExp) {
            return isTrue(Boolean.compare(((BooleanValueExp) left).isTrue(), ((BooleanValueExp) right).isTrue()));
        }
        return isTrue(((StringValueExp) left).text().compareTo(((StringValueExp) right).text()));
    }

    private boolean isTrue(int order) {
        switch (relOp) {
            case javax.management.Query.GT:
                return order > 0;
            case javax.management.Query.LT:
                return order < 0;
            case javax.management.Query.GE:
                return order >= 0;
            case javax.management.Query.LE:
                return order <= 0;
            default:
                return relOp == javax.management.Query.EQ && order == 0;
        }
    }

    /** Apart, because NaN is in no order, and the zeros are equal. */
    private boolean isTrue(double first, double second) {
        return !Double.isNaN(first) && !Double.isNaN(second)
            && isTrue(first < second ? -1 : first > second ? 1 : 0);
    }
}

final class BinaryOpValueExp extends ValueExp {
    private static final long serialVersionUID = 1216286847881456786L;
    private int op;
    private ValueExp exp1;
    private ValueExp exp2;

    @Override
    List<? extends Expression> parts() {
        return Arrays.asList(exp1, exp2);
    }

    @Override
    ValueExp apply(Candidate one) throws UnfitException, RefusedQueryException {
        ValueExp left = one.value(exp1);
        ValueExp right = one.value(exp2);
        if (left instanceof NumericValueExp) {
            NumericValueExp first = (NumericValueExp) left;
            NumericValueExp second = (NumericValueExp) right;
            return new NumericValueExp(first.isLong() ? (Number) result(first.asLong(), second.asLong())
                : (Number) result(first.asDouble(), second.asDouble()));
        }
        String first = ((StringValueExp) left).text();
        String second = ((StringValueExp) right).text();
        if (op != javax.management.Query.PLUS) {
            throw UNFIT;
        }
        if (lengthOf(first) + lengthOf(second) > MAX_TEXT) {
            throw new RefusedQueryException("it makes a text of more than " + MAX_TEXT + " characters");
        }
        return new StringValueExp(first + second);
    }

    private Long result(long first, long second) throws UnfitException {
        switch (op) {
            case javax.management.Query.PLUS:
                return first + second;
            case javax.management.Query.MINUS:
                return first - second;
            case javax.management.Query.TIMES:
                return first * second;
            case javax.management.Query.DIV:
                return first / second;
            default:
                throw UNFIT;
        }
    }

    private Double result(double first, double second) throws UnfitException {
        switch (op) {
            case javax.management.Query.PLUS:
                return first + second;
            case javax.management.Query.MINUS:
                return first - second;
            case javax.management.Query.TIMES:
                return first * second;
            case javax.management.Query.DIV:
                return first / second;
            default:
                throw UNFIT;
        }
    }
}

class AttributeValueExp extends ValueExp {
    private static final long serialVersionUID = -7768025046539163385L;
    private String attr;

    @Override
    int length() {
        return lengthOf(attr);
    }

    @Override
    ValueExp apply(Candidate one) throws UnfitException, RefusedQueryException {
        Object value = one.attribute(attr);
        if (value instanceof Number) {
            return new NumericValueExp((Number) value);
        }
        if (value instanceof String) {
            return new StringValueExp((String) value);
        }
        if (value instanceof Boolean) {
            return new BooleanValueExp((Boolean) value);
        }
        throw UNFIT;
    }
}

final class QualifiedAttributeValueExp extends AttributeValueExp {
    private static final long serialVersionUID = 8832517277410933254L;
    private String className;

    @Override
    int length() {
        return super.length() + lengthOf(className);
    }

    @Override
    ValueExp apply(Candidate one) throws UnfitException, RefusedQueryException {
        if (!one.className().equals(className)) {
            throw UNFIT;
        }
        return super.apply(one);
    }
}

final class ClassAttributeValueExp extends AttributeValueExp {
    private static final long serialVersionUID = -1081892073854801359L;

    @Override
    ValueExp apply(Candidate one) throws UnfitException, RefusedQueryException {
        return new StringValueExp(one.className());
    }
}

final class NumericValueExp extends ValueExp {
    private static final long serialVersionUID = -4679739485102359104L;
    /** A Long or a Double; null where a client sent that. */
    private Number val;

    NumericValueExp(Number number) {
        val = simple(number);
    }

    private void readObject(ObjectInputStream input) throws IOException, ClassNotFoundException {
        input.defaultReadObject();
        val = simple(val);
    }

    /** As the JDK uses it: numbers of other classes are taken for Double, once, because that takes long for some. */
    private static Number simple(Number number) {
        boolean isLong = number instanceof Long || number instanceof Integer;
        return number == null ? null : isLong ? (Number) number.longValue() : (Number) number.doubleValue();
    }

    boolean isLong() {
        return val instanceof Long;
    }

    long asLong() {
        return val.longValue();
    }

    double asDouble() {
        return val.doubleValue();
    }

    @Override
    ValueExp apply(Candidate one) {
        return this;
    }
}

final class StringValueExp extends ValueExp {
    private static final long serialVersionUID = -3256390509806284044L;
    private final String val;

    StringValueExp(String text) {
        val = text;
    }

    String text() {
        return val;
    }

    @Override
    int length() {
        return lengthOf(val);
    }

    @Override
    ValueExp apply(Candidate one) {
        return this;
    }
}

final class BooleanValueExp extends ValueExp {
    private static final long serialVersionUID = 7754922052666594581L;
    private final boolean val;

    BooleanValueExp(boolean truth) {
        val = truth;
    }

    boolean isTrue() {
        return val;
    }

    @Override
    ValueExp apply(Candidate one) {
        return this;
    }
}
