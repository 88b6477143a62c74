package amqp.gateway.jmx;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.management.MBeanServer;
import javax.management.remote.JMXPrincipal;
import javax.management.remote.MBeanServerForwarder;
import javax.security.auth.Subject;

/** Prints for each method of MBeanServer, as this Java has it, whether a guard lets a call through. */
public final class GuardDecisions {
    private GuardDecisions() {
    }

    // Of several ways to act as a subject, the one that every Java has.
    @SuppressWarnings("removal")
    public static void main(String[] arguments) throws Exception {
        List<String> reached = new ArrayList<>();
        MBeanServer server = (MBeanServer) Proxy.newProxyInstance(
            GuardDecisions.class.getClassLoader(), new Class<?>[] {MBeanServer.class}, (proxy, method, given) -> {
                reached.add(method.getName());
                return neutral(method.getReturnType());
            });
        Backend nobody = request -> new MessageWriter().array(3).integer(0).string("").array(0).toBytes();
        SignsOfLife life = new SignsOfLife(1000);
        Operations operations = new Operations(new ManagedObjects(server, "amqp.gateway", life, 1), nobody);
        MBeanServerForwarder guard = Guard.of("amqp.gateway", operations);
        guard.setMBeanServer(server);
        Subject user = new Subject(
            true, Set.of(new JMXPrincipal("somebody")), Set.of(new Caller.Login(0, true)), Set.of());
        Subject.doAs(user, (PrivilegedExceptionAction<Void>) () -> {
            for (Method method : MBeanServer.class.getMethods()) {
                reached.clear();
                System.out.println(form(method) + " " + decision(guard, method, reached));
            }
            return null;
        });
    }

    private static String decision(MBeanServer guard, Method method, List<String> reached) throws Exception {
        try {
            method.invoke(guard, Stream.of(method.getParameterTypes()).map(GuardDecisions::neutral).toArray());
        } catch (InvocationTargetException error) {
            return error.getCause() instanceof SecurityException && reached.isEmpty() ? "refused" : "own";
        }
        return reached.equals(List.of(method.getName())) ? "forwarded" : "own";
    }

    private static Object neutral(Class<?> type) {
        return type == boolean.class ? (Object) false : null;
    }

    private static String form(Method method) {
        return Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName)
            .collect(Collectors.joining(",", method.getName() + "(", ")"));
    }
}
