package amqp.gateway.jmx;

import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.rmi.MarshalledObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.AttributeValueExp;
import javax.management.DynamicMBean;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.QueryExp;
import javax.management.StringValueExp;
import javax.management.ValueExp;

/** Holds random queries against the same MBeans twice, by the JDK's classes and by ours; prints where they differ. */
public final class QueryComparison {
    private static final String[] TEXTS = {
        "", "a", "ab", "aba", "abab", "b-a", "[a]", "a]", "a\\b", "a*b", "?", "!", "-", "\ud83d\udc07a", "\u00e9"};
    private static final String[] ATTRIBUTES = {
        "Text", "Other", "Long", "Integer", "Short", "Double", "Float", "Truth", "Big", "Decimal", "Null", "Date", "None"};
    private static final Number[] NUMBERS = {
        0L, 1L, -1L, 2, 3, (short) 1, (byte) 2, 0.5, -0.0, 0.0, Double.NaN, Double.POSITIVE_INFINITY, 1.5f,
        Long.MAX_VALUE, Long.MIN_VALUE, BigInteger.ONE.shiftLeft(70), new BigDecimal("0.5"), null};
    private static final String[] CLASSES = {
        "test:queue", "test.Exchange", "java.lang.Object", "javax.management.DynamicMBean", "java.lang.String", "",
        "no.such.Class", null};
    private static final String[] NAMES = {
        "test:*", "*:*", "t?st:*", "*e*t:kind=queue,*", "test:number=*,kind=*", "test:number=1?,*", "test:kind=que*e,*",
        "test:kind=queue,number=3", "test:kind=queue", "other:*", "test:kind=\"*\",*", "test:*,kind=exch*nge"};
    private static final int MBEANS = 16;

    private final Random random;

    private QueryComparison(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        long seed = Long.parseLong(arguments[0]);
        int count = Integer.parseInt(arguments[1]);
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        QueryComparison comparison = new QueryComparison(seed);
        for (int number = 0; number < MBEANS; number++) {
            String kind = number % 3 == 0 ? "exchange" : "queue";
            server.registerMBean(comparison.mbean(number), new ObjectName("test:kind=" + kind + ",number=" + number));
        }
        SignsOfLife life = new SignsOfLife(1000);
        Viewer viewer = new Viewer(0, new ManagedObjects(server, "amqp.gateway", life, 1));
        int some = 0;
        int different = 0;
        for (int number = 0; number < count; number++) {
            ObjectName name = comparison.random.nextInt(3) > 0 ? null : comparison.name();
            QueryExp query = comparison.random.nextInt(20) == 0 ? null : comparison.condition(4);
            Set<ObjectName> expected = server.queryNames(name, query);
            some += expected.isEmpty() || expected.size() == server.getMBeanCount() ? 0 : 1;
            Query ours = new Query(name, QueryReader.read(query == null ? null : new MarshalledObject<>(query)));
            Set<ObjectName> all = server.queryNames(ours.asked(name), null);
            Set<ObjectName> found = ours.select(all, Function.identity(), viewer, new Deadline(60_000));
            if (!expected.equals(found)) {
                different++;
                System.out.println("of seed " + seed + ": " + name + " " + query + ": " + expected + " and not " + found);
            }
        }
        System.out.println(secondsInside(server, viewer));
        System.out.println(count + " queries, " + some + " with some MBeans, " + different + " different");
    }

    /** What comes of a query that holds one pattern against one text for minutes, and has 50 ms. */
    private static String secondsInside(MBeanServer server, Viewer viewer) throws Exception {
        ObjectName name = new ObjectName("test:kind=long");
        server.registerMBean(new Values("long", Map.of("Text", "a".repeat(50_000_000))), name);
        QueryExp query = javax.management.Query.match(
            new AttributeValueExp("Text"), new StringValueExp("*a".repeat(30_000) + "b"));
        Query ours = new Query(name, QueryReader.read(new MarshalledObject<>(query)));
        long began = System.nanoTime();
        try {
            return "found " + ours.select(Set.of(name), Function.identity(), viewer, new Deadline(50));
        } catch (RefusedQueryException error) {
            boolean isSoon = System.nanoTime() - began < TimeUnit.SECONDS.toNanos(20);
            return (isSoon ? "soon " : "late ") + error.getMessage();
        }
    }

    private <T> T one(T[] all) {
        return all[random.nextInt(all.length)];
    }

    private ObjectName name() throws Exception {
        return new ObjectName(one(NAMES));
    }

    private QueryExp condition(int levels) throws Exception {
        switch (levels == 0 ? 3 + random.nextInt(8) : random.nextInt(11)) {
            case 0:
                return javax.management.Query.and(condition(levels - 1), condition(levels - 1));
            case 1:
                return javax.management.Query.or(condition(levels - 1), condition(levels - 1));
            case 2:
                return javax.management.Query.not(condition(levels - 1));
            case 3:
                return relation(value(2), value(2));
            case 4:
                return javax.management.Query.between(value(2), value(2), value(2));
            case 5:
                ValueExp[] values = new ValueExp[random.nextInt(4)];
                for (int index = 0; index < values.length; index++) {
                    values[index] = value(1);
                }
                return javax.management.Query.in(value(2), random.nextInt(20) == 0 ? null : values);
            case 6:
            case 7:
                return javax.management.Query.match(attribute(), new StringValueExp(pattern()));
            case 8:
                StringValueExp text = new StringValueExp(one(TEXTS));
                return one(new QueryExp[] {javax.management.Query.initialSubString(attribute(), text),
                    javax.management.Query.anySubString(attribute(), text),
                    javax.management.Query.finalSubString(attribute(), text)});
            case 9:
                return javax.management.Query.isInstanceOf(new StringValueExp(one(CLASSES)));
            default:
                return name();
        }
    }

    private QueryExp relation(ValueExp left, ValueExp right) {
        switch (random.nextInt(5)) {
            case 0:
                return javax.management.Query.eq(left, right);
            case 1:
                return javax.management.Query.gt(left, right);
            case 2:
                return javax.management.Query.geq(left, right);
            case 3:
                return javax.management.Query.lt(left, right);
            default:
                return javax.management.Query.leq(left, right);
        }
    }

    private ValueExp value(int levels) {
        switch (levels == 0 ? random.nextInt(5) : random.nextInt(6)) {
            case 0:
                return new StringValueExp(random.nextInt(20) == 0 ? null : one(TEXTS));
            case 1:
                return javax.management.Query.value(one(NUMBERS));
            case 2:
                return random.nextInt(20) == 0 ? null : javax.management.Query.value(random.nextBoolean());
            case 3:
            case 4:
                return attribute();
            default:
                ValueExp left = value(levels - 1);
                ValueExp right = value(levels - 1);
                return one(new ValueExp[] {javax.management.Query.plus(left, right),
                    javax.management.Query.minus(left, right), javax.management.Query.times(left, right),
                    javax.management.Query.div(left, right)});
        }
    }

    private AttributeValueExp attribute() {
        switch (random.nextInt(12)) {
            case 0:
                return javax.management.Query.classattr();
            case 1:
                return javax.management.Query.attr(one(CLASSES), one(ATTRIBUTES));
            case 2:
            case 3:
            case 4:
                return javax.management.Query.attr("Text");
            default:
                return javax.management.Query.attr(one(ATTRIBUTES));
        }
    }

    private String pattern() {
        StringBuilder pattern = new StringBuilder();
        for (int length = random.nextInt(7); length > 0; length--) {
            pattern.append("aaabb*??[[]]!--\\".charAt(random.nextInt(16)));
        }
        return random.nextInt(40) == 0 ? null : pattern.toString();
    }

    private DynamicMBean mbean(int number) {
        Map<String, Object> values = new TreeMap<>();
        values.put("Text", TEXTS[number % TEXTS.length]);
        values.put("Other", one(TEXTS));
        values.put("Long", (long) random.nextInt(4) - 1);
        values.put("Integer", random.nextInt(4));
        values.put("Short", (short) random.nextInt(4));
        values.put("Double", one(new Double[] {0.0, -0.0, 0.5, 1.0, Double.NaN}));
        values.put("Float", 0.5f * random.nextInt(4));
        values.put("Truth", random.nextBoolean());
        values.put("Big", BigInteger.valueOf(random.nextInt(3)).shiftLeft(random.nextInt(2) * 70));
        values.put("Decimal", new BigDecimal("0.5").multiply(BigDecimal.valueOf(random.nextInt(4))));
        values.put("Null", null);
        values.put("Date", new Date(0));
        return new Values(one(new String[] {"test:queue", "test.Exchange"}), values);
    }

    private static final class Values implements DynamicMBean {
        private final MBeanInfo info;
        private final Map<String, Object> values;

        Values(String className, Map<String, Object> values) {
            this.info = new MBeanInfo(className, "of a test", null, null, null, null);
            this.values = values;
        }

        @Override
        public Object getAttribute(String attribute) throws AttributeNotFoundException {
            if (!values.containsKey(attribute)) {
                throw new AttributeNotFoundException(attribute);
            }
            return values.get(attribute);
        }

        @Override
        public void setAttribute(Attribute attribute) {
            throw new UnsupportedOperationException();
        }

        @Override
        public AttributeList getAttributes(String[] attributes) {
            List<Attribute> found = new ArrayList<>();
            Arrays.stream(attributes).forEach(name -> found.add(new Attribute(name, values.get(name))));
            return new AttributeList(found);
        }

        @Override
        public AttributeList setAttributes(AttributeList attributes) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Object invoke(String action, Object[] parameters, String[] signature) {
            throw new UnsupportedOperationException();
        }

        @Override
        public MBeanInfo getMBeanInfo() {
            return info;
        }
    }
}
